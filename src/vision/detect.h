// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "vision/detection.h"
#include "vision/heads.h"
#include "vision/nms.h"
#include "vision/preprocess.h"

namespace tenon::vision {

struct DetectOptions {
  float confidence = 0.25f;  ///< a score must be above it
  float iou = 0.7f;
  int max_detections = 300;
  bool agnostic = false;     ///< boxes of different classes hide each other, too
  std::vector<int> classes;  ///< those wanted; empty: all
  bool boxes_alone = false;  ///< no masks and no key points
};

/// Objects of image `image` of the batch, in the pixels of its source and clipped to it, best first.
/// Throws Error(unsupported) where the outputs are not f32 or differ from the head.
std::vector<Detection> detect(const Head& head, std::span<const Tensor> outputs, int64_t image,
                              const Transform& transform, const DetectOptions& options = {});

}  // namespace tenon::vision
