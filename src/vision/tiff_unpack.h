// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::vision {

enum class TiffPacking : uint16_t { none = 1, lzw = 5, deflate = 8, old_deflate = 32946, packbits = 32773 };
bool is_known(TiffPacking packing);

/// Most bytes that one packed byte can stand for: a strip that should hold more is broken, and takes no memory.
size_t most_growth(TiffPacking packing);

/// Unpacks a strip or tile to exactly `out`; false where it is damaged or too short.
bool unpack(TiffPacking packing, std::span<const uint8_t> packed, std::span<uint8_t> out);

}  // namespace tenon::vision
