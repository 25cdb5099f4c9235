// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "vision/detection.h"
#include "vision/heads.h"
#include "vision/preprocess.h"

namespace tenon::vision {

/// Values of each candidate of a head with one output for boxes and scores.
int64_t values_of(const Head& head);

/// What follows a candidate's class scores.
class Extras {
 public:
  /// `data` is the image's part of the output.
  Extras(const Head& head, const float* data, int64_t candidate) {
    const int64_t values = values_of(head), first = values - head.extras;
    step_ = head.candidates_last ? head.candidates : 1;
    data_ = head.candidates_last ? data + first * head.candidates + candidate : data + candidate * values + first;
  }
  float operator[](int64_t at) const { return data_[at * step_]; }

 private:
  const float* data_;
  int64_t step_;
};

/// Throws Error(unsupported) where the outputs for masks and key points are not the head's.
void check_parts(const Head& head, std::span<const Tensor> outputs);

/// Gives objects, whose boxes lie in the source, their masks and key points.
void add_parts(const Head& head, std::span<const Tensor> outputs, int64_t image, const Transform& transform,
               std::vector<Detection>& found);

}  // namespace tenon::vision
