// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>

namespace tenon::ops {

/// Top, left, bottom and right of a box of NonMaxSuppression, of two corners in any order or, `centred`, of the
/// centre's column and row, width and height.
inline std::array<float, 4> corners_of(const float* box, bool centred) {
  if (centred) return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
  return {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]), std::max(box[1], box[3])};
}

}  // namespace tenon::ops
