// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "vision/detection.h"
#include "vision/preprocess.h"

namespace tenon::vision {

/// Planes over a network's input, from which masks are made: `count` of height x width.
struct Planes {
  const float* data = nullptr;
  int64_t count = 0, height = 0, width = 0;
};

/// The pixels of `box`, corners in the source, where the sum of the planes, each times its coefficient, is above
/// `threshold`; between the planes' points it is interpolated linearly.
Mask mask_of(const Planes& planes, std::span<const float> coefficients, const float box[4], const Transform& transform,
             float threshold = 0);

int64_t area(const Mask& mask);

/// COCO's compressed run lengths of an image of this size, columns first: what pycocotools calls "counts".
std::string run_lengths(const Mask& mask, int image_width, int image_height);

using Polygon = std::vector<Point>;
/// The edges of a mask along its pixels' borders, without points that lie within `tolerance` pixels of the line
/// between others. Inner ones, of holes, too.
std::vector<Polygon> outlines(const Mask& mask, float tolerance = 1);
/// The outline that encloses most; none of an empty mask.
Polygon largest_outline(const Mask& mask, float tolerance = 1);

}  // namespace tenon::vision
