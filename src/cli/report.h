// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "base/counted.h"
#include "base/printable.h"
#include "base/quantity.h"

namespace tenon::cli {

/// Writes JSON to a file, or to stdout for "-"; the file appears whole or not at all. Bytes that are no UTF-8 become
/// U+FFFD. Throws Error(io).
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// Writes a file as a whole, or to stdout for "-". Throws Error(io).
void write_bytes(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tenon::cli
