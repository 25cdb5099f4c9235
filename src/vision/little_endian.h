// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::vision {

/// Integers of a file whose first byte is the least; the caller has checked that they lie in it.
inline uint32_t le16(std::span<const uint8_t> bytes, size_t at) { return bytes[at] | bytes[at + 1] << 8; }
inline uint32_t le32(std::span<const uint8_t> bytes, size_t at) {
  return le16(bytes, at) | static_cast<uint32_t>(le16(bytes, at + 2)) << 16;
}

}  // namespace tenon::vision
