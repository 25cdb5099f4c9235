// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// As decode_image, for bytes that begin like a WebP: still images, lossy and lossless.
Image decode_webp(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace tenon::vision
