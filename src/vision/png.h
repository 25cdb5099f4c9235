// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// As decode_image, for bytes that begin like a PNG.
Image decode_png(std::span<const uint8_t> bytes, const std::string& name);
std::vector<uint8_t> png_bytes(const Image& image);
/// One channel of 8 bits, of 16 where a value needs them.
std::vector<uint8_t> grey_png_bytes(std::span<const uint16_t> values, int width, int height);

}  // namespace tenon::vision
