// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "vision/detection.h"

namespace tenon::vision {

/// Keeps the best of overlapping boxes of the same class, or of any class where `agnostic`, best first and at most
/// `max_kept`; equal scores keep their order. A box falls where its intersection over union with a kept one is above
/// `iou`; of two oriented boxes probabilistic_iou() is taken.
std::vector<Detection> nms(std::vector<Detection> candidates, float iou, int max_kept, bool agnostic = false);

}  // namespace tenon::vision
