// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <span>
#include <vector>

#include "vision/image.h"
#include "vision/spec.h"

namespace tenon::vision {

/// How points of the source image lie in the network's input: input = source * scale + offset, per axis.
struct Transform {
  double scale_x = 1, scale_y = 1, offset_x = 0, offset_y = 0;
  int source_width = 0, source_height = 0, input_width = 0, input_height = 0;
  double source_x(double x) const { return (x - offset_x) / scale_x; }
  double source_y(double y) const { return (y - offset_y) / scale_y; }
};

/// Writes one image as 3 x height x width floats (or height x width x 3, by the spec's layout) and says where it
/// lies. Throws Error(usage) where the spec has no size or the image is empty.
Transform preprocess(const Image& image, const Spec& spec, float* out);

/// A batch: [N,3,H,W] or [N,H,W,3], f32. `transforms`, where given, gets one entry for each image.
Tensor preprocess(std::span<const Image> images, const Spec& spec, std::vector<Transform>* transforms = nullptr);

/// The geometry alone: the 8-bit RGB image that preprocess would go on to scale.
Image fit(const Image& image, const Spec& spec);

}  // namespace tenon::vision
