// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "base/counted.h"
#include "base/printable.h"

namespace tenon::cli {

/// Writes JSON to a file, or to stdout for "-"; the file appears whole or not at all. Bytes that are no UTF-8 become
/// U+FFFD. Throws Error(io).
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// Writes a file as a whole, or to stdout for "-". Throws Error(io).
void write_bytes(const std::string& path, std::span<const std::byte> bytes);

/// "12.3 MB": decimal units.
std::string bytes_text(int64_t bytes);

/// What a session takes on a GPU beside its arena and weights, and in all.
nlohmann::ordered_json device_memory(const MemoryUse& memory);
/// The same as words: "inputs 4.9 MB, workspace 0 B: 12.3 MB on the GPU".
std::string device_memory_text(const MemoryUse& memory);

}  // namespace tenon::cli
