#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"

namespace tenon::cli {

/// Writes JSON to a file, or to stdout for "-"; the file appears whole or not at all. Bytes that are no UTF-8 become
/// U+FFFD. Throws Error(io).
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// "1 picture", "2 pictures".
std::string counted(int64_t count, const std::string& noun);

/// "12.3 MB": decimal units.
std::string bytes_text(int64_t bytes);

}  // namespace tenon::cli
