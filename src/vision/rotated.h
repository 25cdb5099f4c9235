// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include "vision/detection.h"
#include "vision/preprocess.h"

namespace tenon::vision {

/// The four corners in order around the box; the first two are the ends of one side `height`.
std::array<Point, 4> corners(const Rotated& box);

/// How much two oriented boxes overlap, 0 to 1: one less the Hellinger distance of the normal distributions that have
/// the boxes' centres and spreads (ProbIoU, Llerena et al. 2021), as oriented YOLO models are trained and judged by.
float probabilistic_iou(const Rotated& a, const Rotated& b);

/// The box in the pixels of the source, its longer side as the width and its angle in [0, pi).
Rotated to_source(const Rotated& box, const Transform& transform);

}  // namespace tenon::vision
