// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// As decode_image, for bytes that begin like a JPEG. Grey, YCbCr, RGB, CMYK and YCCK; baseline and progressive.
Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& name);
std::vector<uint8_t> jpeg_bytes(const Image& image, int quality);

}  // namespace tenon::vision
