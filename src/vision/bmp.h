// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// As decode_image, for bytes that begin like a BMP: 1 to 32 bits a pixel, palettes, masks, RLE4 and RLE8.
Image decode_bmp(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace tenon::vision
