// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "vision/image.h"

#include <span>
#include <string>

namespace tenon::vision {

/// Decodes a JPEG, PNG, BMP, TIFF or WebP image, upright (EXIF orientation applied), without its alpha channel.
/// Of 16 bits the high byte is kept. `name` stands in errors. Throws Error(io) on truncated, broken or
/// unknown data and Error(resource) above max_pixels.
Image decode_image(std::span<const uint8_t> bytes, const std::string& name);
Image decode_image(const std::string& path);

/// Names of images that decode_image may read, for messages.
inline constexpr const char* image_endings = ".jpg, .jpeg, .png, .bmp, .tif, .tiff and .webp";
/// Whether the name ends like one of them.
bool is_image_name(const std::string& path);
/// Whether encode_image writes files of this name (.jpg, .jpeg, .png).
bool is_writable_image_name(const std::string& path);

/// Quality 1..100, 4:2:0 chroma. The file appears whole or not at all; throws Error(io).
void encode_jpeg(const Image& image, const std::string& path, int quality = 92);
void encode_png(const Image& image, const std::string& path);
/// By the name's ending; throws Error(usage) where it is neither JPEG nor PNG.
void encode_image(const Image& image, const std::string& path);

}  // namespace tenon::vision
