// SPDX-License-Identifier: Apache-2.0
#include "vision/webp.h"

#include <tenon/error.h>
#include <webp/decode.h>

#include <algorithm>
#include <string_view>

#include "vision/exif.h"
#include "vision/little_endian.h"

namespace tenon::vision {
namespace {

constexpr size_t riff_header = 12, chunk_header = 8;

const char* text_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it has a feature that libwebp does not know";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends in the middle";
    default: return "its data are damaged";
  }
}

int orientation_of(std::span<const uint8_t> bytes) {
  const auto named = [&](size_t at, std::string_view name) {
    return std::equal(name.begin(), name.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (size_t at = riff_header; at + chunk_header <= bytes.size();) {
    const size_t size = le32(bytes, at + 4), begin = at + chunk_header;
    if (size > bytes.size() - begin) return 1;
    if (named(at, "EXIF")) {
      const bool marked = size > 6 && named(begin, std::string_view("Exif\0\0", 6));
      return exif_orientation(bytes.subspan(begin, size).subspan(marked ? 6 : 0));
    }
    at = begin + size + size % 2;
  }
  return 1;
}

}  // namespace

Image decode_webp(std::span<const uint8_t> bytes, const std::string& name) {
  const auto check = [&](VP8StatusCode status) {
    if (status != VP8_STATUS_OK)
      throw Error(Code::io, "cannot decode the WebP image", {.where = name, .why = text_of(status)});
  };
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw Error(Code::unsupported, "cannot decode the WebP image",
                {.where = name, .why = "libwebp is of another version than its headers"});
  check(WebPGetFeatures(bytes.data(), bytes.size(), &config.input));
  if (config.input.has_animation)
    throw Error(Code::io, "cannot decode the WebP image",
                {.where = name, .why = "it is an animation", .hint = "convert it to a video or to images"});
  if (static_cast<int64_t>(config.input.width) * config.input.height > max_pixels)
    throw Error(Code::resource, "the image is too large",
                {.where = name,
                 .why = std::to_string(config.input.width) + "x" + std::to_string(config.input.height) + " pixels"});
  Image image(config.input.width, config.input.height);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.pixels.data(), static_cast<int>(image.pitch()), image.pixels.size()};
  check(WebPDecode(bytes.data(), bytes.size(), &config));
  return upright(std::move(image), orientation_of(bytes));
}

}  // namespace tenon::vision
