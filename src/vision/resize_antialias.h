// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/resize.h"

namespace tenon::vision {

/// Pillow's 8-bit BILINEAR resize: a triangle filter that widens with the reduction, 22-bit weights, along rows to 8
/// bits and then along columns. Pillow 13 changes the order where the height shrinks far more than the width; this does
/// not. Takes region.width x 3 bytes for each source row that the region reaches.
std::unique_ptr<Resampler> antialias_resampler(const Image& image, int width, int height, const Region& region);

}  // namespace tenon::vision
