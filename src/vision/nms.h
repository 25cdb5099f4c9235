// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

namespace tenon::vision {

/// One object: corners x0, y0, x1, y1 in pixels. `class_id` counts from 0 without a background class.
struct Detection {
  int class_id = 0;
  float score = 0;
  float box[4] = {0, 0, 0, 0};
};

/// Keeps the best of overlapping boxes of the same class, or of any class where `agnostic`, best first and at most
/// `max_kept`; equal scores keep their order. A box falls where its intersection over union with a kept one is above
/// `iou`.
std::vector<Detection> suppress(std::vector<Detection> candidates, float iou, int max_kept, bool agnostic = false);

}  // namespace tenon::vision
