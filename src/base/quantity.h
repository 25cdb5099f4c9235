// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

/// "12.3 MB": decimal units.
std::string bytes_text(int64_t bytes);
/// "1x3x?x?": a size below 0 may change; "scalar" for none.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tenon
