// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// As decode_image, for bytes that begin like a TIFF: the first image of the file, in strips or tiles, grey, RGB, CMYK
/// or with a palette, of 1 to 16 bits; plain, LZW, Deflate or PackBits. 16 bits keep the high byte.
Image decode_tiff(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace tenon::vision
