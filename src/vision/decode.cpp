// SPDX-License-Identifier: Apache-2.0
#include "vision/decode.h"

#include <tenon/error.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "vision/bmp.h"
#include "vision/file.h"
#include "vision/jpeg.h"
#include "vision/png.h"
#include "vision/tiff.h"
#include "vision/webp.h"

namespace tenon::vision {
namespace {

constexpr uint8_t jpeg_start[] = {0xFF, 0xD8, 0xFF};
constexpr uint8_t png_start[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr uint8_t bmp_start[] = {'B', 'M'}, riff_start[] = {'R', 'I', 'F', 'F'}, webp_start[] = {'W', 'E', 'B', 'P'};
constexpr uint8_t tiff_start[] = {'I', 'I', 42, 0}, big_endian_tiff_start[] = {'M', 'M', 0, 42};
constexpr size_t riff_kind = 8;  // where a RIFF file says what it holds

bool begins(std::span<const uint8_t> bytes, std::span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

std::string ending(const std::string& path) {
  const size_t dot = path.find_last_of("./");
  std::string text = dot == std::string::npos || path[dot] == '/' ? "" : path.substr(dot);
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

bool is_written(const std::string& end) { return end == ".jpg" || end == ".jpeg" || end == ".png"; }

void check_drawable(const Image& image, const std::string& path) {
  if (image.width <= 0 || image.height <= 0 || image.width > 65500 || image.height > 65500)
    throw Error(Code::io, "cannot write an image of this size",
                {.where = path, .why = std::to_string(image.width) + "x" + std::to_string(image.height) + " pixels"});
}

}  // namespace

Image decode_image(std::span<const uint8_t> bytes, const std::string& name) {
  if (begins(bytes, jpeg_start)) return decode_jpeg(bytes, name);
  if (begins(bytes, png_start)) return decode_png(bytes, name);
  if (begins(bytes, bmp_start)) return decode_bmp(bytes, name);
  if (begins(bytes, tiff_start) || begins(bytes, big_endian_tiff_start)) return decode_tiff(bytes, name);
  if (begins(bytes, riff_start) && bytes.size() > riff_kind && begins(bytes.subspan(riff_kind), webp_start))
    return decode_webp(bytes, name);
  throw Error(Code::io, "not an image of a known kind",
              {.where = name,
               .why = bytes.empty() ? "the file is empty" : "it begins like none of JPEG, PNG, BMP, TIFF and WebP",
               .hint = name.ends_with(".npy") || name.ends_with(".npz") || name.ends_with(".pb")
                           ? "tenon run takes arrays"
                           : "convert it to JPEG or PNG"});
}

Image decode_image(const std::string& path) { return decode_image(read_file(path), path); }

bool is_image_name(const std::string& path) {
  const std::string end = ending(path);
  return is_written(end) || end == ".bmp" || end == ".tif" || end == ".tiff" || end == ".webp";
}

bool is_writable_image_name(const std::string& path) { return is_written(ending(path)); }

void encode_jpeg(const Image& image, const std::string& path, int quality) {
  check_drawable(image, path);
  const std::vector<uint8_t> bytes = jpeg_bytes(image, std::clamp(quality, 1, 100));
  write_atomically(path, std::as_bytes(std::span(bytes)));
}

void encode_png(const Image& image, const std::string& path) {
  check_drawable(image, path);
  const std::vector<uint8_t> bytes = png_bytes(image);
  write_atomically(path, std::as_bytes(std::span(bytes)));
}

void encode_image(const Image& image, const std::string& path) {
  if (!is_writable_image_name(path))
    throw Error(Code::usage, "unknown kind of image", {.where = path, .hint = "name it .jpg or .png"});
  ending(path) == ".png" ? encode_png(image, path) : encode_jpeg(image, path);
}

}  // namespace tenon::vision
