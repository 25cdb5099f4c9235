// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "vision/nms.h"
#include "vision/preprocess.h"

namespace tenon::vision {

/// What a detector's outputs mean. A is the number of candidates, C of classes.
enum class HeadKind : uint8_t {
  yolov8,      ///< [N,4+C,A] or [N,A,4+C]: centre and size in input pixels, class scores (YOLOv8, v9, 11)
  yolov5,      ///< [N,A,5+C]: centre and size in input pixels, objectness, class scores (YOLOv5, v7; YOLOX with its
               ///< decoder)
  yolox,       ///< [N,A,5+C]: the same on the raw grid: (xy + cell) * stride, exp(wh) * stride
  end_to_end,  ///< [N,A,6]: corners in input pixels, score, class; already without duplicates (YOLOv10)
  ssd,         ///< scores [N,A,C] with background as class 0, and corners [N,A,4] as fractions of the input (UltraFace)
};
const char* name(HeadKind kind);

struct Head {
  HeadKind kind = HeadKind::yolov8;
  bool candidates_last = true;   ///< [.., A] rather than [.., A, values]
  size_t scores = 0, boxes = 0;  ///< which outputs hold them; the same one for all but ssd
  int64_t candidates = 0, classes = 0;
};

struct DetectOptions {
  float confidence = 0.25f;  ///< a score must be above it
  float iou = 0.7f;
  int max_detections = 300;
  bool agnostic = false;     ///< boxes of different classes hide each other, too
  std::vector<int> classes;  ///< those wanted; empty: all
};

/// Recognises a head by the shapes of a model's outputs and, where those leave a choice, by their values. `labels` is
/// the number of class names, 0 where unknown. Nothing where the outputs are not a detector's.
std::optional<Head> recognise(std::span<const Tensor> outputs, int input_width, int input_height, size_t labels = 0);

/// Boxes of image `image` of the batch, in the pixels of its source and clipped to it, best first.
/// Throws Error(unsupported) where the outputs are not f32 or differ from the head.
std::vector<Detection> detect(const Head& head, std::span<const Tensor> outputs, int64_t image,
                              const Transform& transform, const DetectOptions& options = {});

}  // namespace tenon::vision
