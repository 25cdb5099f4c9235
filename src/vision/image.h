// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::vision {

/// An image in memory: 8-bit RGB, interleaved, rows from the top, no padding between them.
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;

  Image() = default;
  Image(int width, int height)
      : width(width), height(height), pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3) {}
  size_t pitch() const { return static_cast<size_t>(width) * 3; }
  uint8_t* row(int y) { return pixels.data() + static_cast<size_t>(y) * pitch(); }
  const uint8_t* row(int y) const { return pixels.data() + static_cast<size_t>(y) * pitch(); }
  bool empty() const { return pixels.empty(); }
};

/// Most pixels a decoder accepts; a larger image or frame is refused before memory is taken for it.
inline constexpr int64_t max_pixels = int64_t{1} << 28;

}  // namespace tenon::vision
