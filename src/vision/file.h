// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::vision {

/// Whole content of a regular file of at most `limit` bytes; throws Error(io) naming the file.
std::vector<uint8_t> read_file(const std::string& path, int64_t limit = int64_t{1} << 30);

}  // namespace tenon::vision
