// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace tenon::vision {

struct Point {
  float x = 0, y = 0;
};

/// A place on an object. `score` is from 0 to 1; 1 where the model tells none.
struct KeyPoint {
  float x = 0, y = 0, score = 1;
};

/// An oriented box: `angle` in radians, clockwise where y points down, from the x axis to the side `width`.
struct Rotated {
  float cx = 0, cy = 0, width = 0, height = 0, angle = 0;
};

/// The pixels that an object covers: one byte each, 0 or 1, rows of a part of the image; outside it there are none.
struct Mask {
  int x0 = 0, y0 = 0, width = 0, height = 0;
  std::vector<uint8_t> bits;

  bool empty() const { return bits.empty(); }
  bool at(int x, int y) const {
    const int column = x - x0, row = y - y0;
    return column >= 0 && row >= 0 && column < width && row < height &&
           bits[static_cast<size_t>(row) * static_cast<size_t>(width) + static_cast<size_t>(column)] != 0;
  }
};

/// One object: corners x0, y0, x1, y1 in pixels. `class_id` counts from 0 without a background class.
struct Detection {
  int class_id = 0;
  float score = 0;
  float box[4] = {0, 0, 0, 0};
  int64_t candidate = -1;          ///< of the outputs that it was read from
  std::optional<Rotated> rotated;  ///< of oriented heads; `box` is what encloses it
  std::vector<KeyPoint> points;    ///< of pose heads
  Mask mask;                       ///< of segmentation heads
};

}  // namespace tenon::vision
