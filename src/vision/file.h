#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon::vision {

/// Whole content of a regular file of at most `limit` bytes; throws Error(io) naming the file.
std::vector<uint8_t> read_file(const std::string& path, int64_t limit = int64_t{1} << 30);

/// Writes beside the target and renames, so that readers see the old file or the whole new one; throws Error(io).
void write_file(const std::string& path, std::span<const uint8_t> bytes);

/// A name in the target's folder that no other writer uses.
std::string temporary_beside(const std::string& path);
/// Moves a finished temporary onto its target; removes it and throws Error(io) where that fails.
void commit_file(const std::string& temporary, const std::string& path);

}  // namespace tenon::vision
