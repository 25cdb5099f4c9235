// SPDX-License-Identifier: Apache-2.0
#include "vision/png.h"

#include <spng.h>
#include <tenon/error.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "vision/exif.h"

namespace tenon::vision {
namespace {

constexpr size_t max_chunk_bytes = size_t{1} << 26;

struct Free {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

Image decode_png(std::span<const uint8_t> bytes, const std::string& name) {
  const std::unique_ptr<spng_ctx, Free> context(spng_ctx_new(0));
  if (!context) throw Error(Code::resource, "out of memory", {.where = name});
  const auto check = [&](int status) {
    if (status) throw Error(Code::io, "cannot decode the PNG image", {.where = name, .why = spng_strerror(status)});
  };
  check(spng_set_chunk_limits(context.get(), max_chunk_bytes, max_chunk_bytes));
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header{};
  check(spng_get_ihdr(context.get(), &header));
  if (static_cast<int64_t>(header.width) * header.height > max_pixels || header.width > 1u << 28)
    throw Error(Code::resource, "the image is too large",
                {.where = name, .why = std::to_string(header.width) + "x" + std::to_string(header.height) + " pixels"});
  size_t size = 0;
  check(spng_decoded_image_size(context.get(), SPNG_FMT_RGB8, &size));
  Image image(static_cast<int>(header.width), static_cast<int>(header.height));
  if (size != image.pixels.size())
    throw Error(Code::io, "cannot decode the PNG image", {.where = name, .why = "unexpected size"});
  check(spng_decode_image(context.get(), image.pixels.data(), size, SPNG_FMT_RGB8, 0));
  spng_exif exif{};
  if (spng_get_exif(context.get(), &exif) != 0) return image;
  return upright(std::move(image), exif_orientation({reinterpret_cast<const uint8_t*>(exif.data), exif.length}));
}

static std::vector<uint8_t> encoded(int width, int height, spng_color_type type, uint8_t depth,
                                    std::span<const uint8_t> bytes) {
  const std::unique_ptr<spng_ctx, Free> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (!context) throw Error(Code::resource, "out of memory");
  const auto check = [](int status) {
    if (status) throw Error(Code::io, "cannot encode the PNG image", {.why = spng_strerror(status)});
  };
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(width);
  header.height = static_cast<uint32_t>(height);
  header.bit_depth = depth;
  header.color_type = static_cast<uint8_t>(type);
  check(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  check(spng_set_ihdr(context.get(), &header));
  check(spng_encode_image(context.get(), bytes.data(), bytes.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE));
  size_t size = 0;
  int status = 0;
  const std::unique_ptr<void, Free> buffer(spng_get_png_buffer(context.get(), &size, &status));
  check(status);
  const auto* begin = static_cast<const uint8_t*>(buffer.get());
  return {begin, begin + size};
}

std::vector<uint8_t> png_bytes(const Image& image) {
  return encoded(image.width, image.height, SPNG_COLOR_TYPE_TRUECOLOR, 8, image.pixels);
}

std::vector<uint8_t> grey_png_bytes(std::span<const uint16_t> values, int width, int height) {
  const bool wide = std::any_of(values.begin(), values.end(), [](uint16_t value) { return value > 255; });
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * (wide ? 2 : 1));
  for (const uint16_t value : values) {
    // spng takes 16 bits in the order of the machine.
    const auto* parts = reinterpret_cast<const uint8_t*>(&value);
    if (wide) bytes.insert(bytes.end(), parts, parts + 2);
    else bytes.push_back(static_cast<uint8_t>(value));
  }
  return encoded(width, height, SPNG_COLOR_TYPE_GRAYSCALE, wide ? 16 : 8, bytes);
}

}  // namespace tenon::vision
