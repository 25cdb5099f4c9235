// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>

#include "vision/image.h"

namespace tenon::vision {

/// The image that make_golden.py calls noise(width, height).
inline Image noise(int width, int height) {
  Image image(width, height);
  for (size_t at = 0; at < image.pixels.size(); ++at) {
    auto mixed =
        static_cast<uint32_t>(at * 2654435761u + static_cast<uint64_t>(width) * 40503 + static_cast<uint64_t>(height));
    mixed ^= mixed >> 15;
    mixed *= 2246822519u;
    image.pixels[at] = static_cast<uint8_t>(mixed >> 13);
  }
  return image;
}

inline uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t sum = ~0u;
  for (const uint8_t byte : bytes) {
    sum ^= byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  return ~sum;
}

}  // namespace tenon::vision
