// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>

namespace tenon::vision {

/// Orientation (1..8) from a TIFF block as EXIF holds it; 1 where the block has none or is broken.
int exif_orientation(std::span<const uint8_t> tiff);

/// Turns and mirrors an image as an EXIF orientation asks, so that it stands upright.
Image upright(Image image, int orientation);

}  // namespace tenon::vision
