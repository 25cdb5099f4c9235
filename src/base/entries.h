// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Questions about paths whose answer is never an exception of the standard library.
namespace tenon {

/// Paths of what is in a folder, sorted by name. Throws Error(io).
std::vector<std::string> entries_of(const std::string& folder);
/// Makes a folder and those that lead to it. Throws Error(io).
void make_folder(const std::string& path);
/// False where it cannot be told, too.
bool is_folder(const std::string& path);
bool is_regular_file(const std::string& path);
/// Whether anything has this name.
bool is_there(const std::string& path);
/// Bytes of a regular file; 0 for anything else.
int64_t size_of_file(const std::string& path);

}  // namespace tenon
