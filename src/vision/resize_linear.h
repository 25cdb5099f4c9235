// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/resize.h"

namespace tenon::vision {

/// Bilinear resampling with the arithmetic of OpenCV 4's INTER_LINEAR on 8-bit images: half-pixel centres, 11-bit
/// weights, a truncated vertical product; an exact halving of both sides is the rounded mean of 2x2 pixels.
std::unique_ptr<Resampler> linear_resampler(const Image& image, int width, int height, const Region& region);

}  // namespace tenon::vision
