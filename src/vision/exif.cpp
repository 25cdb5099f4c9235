// SPDX-License-Identifier: Apache-2.0
#include "vision/exif.h"

#include <cstring>

namespace tenon::vision {
namespace {

constexpr uint16_t orientation_tag = 0x0112;
constexpr uint16_t type_short = 3;
constexpr size_t entry_bytes = 12;

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, bool big) : bytes_(bytes), big_(big) {}
  bool holds(size_t at, size_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  uint32_t u16(size_t at) const { return big_ ? bytes_[at] << 8 | bytes_[at + 1] : bytes_[at + 1] << 8 | bytes_[at]; }
  uint32_t u32(size_t at) const { return big_ ? u16(at) << 16 | u16(at + 2) : u16(at + 2) << 16 | u16(at); }

 private:
  std::span<const uint8_t> bytes_;
  bool big_;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  if (tiff.size() < 8) return 1;
  const bool big = tiff[0] == 'M' && tiff[1] == 'M';
  if (!big && !(tiff[0] == 'I' && tiff[1] == 'I')) return 1;
  const Reader read(tiff, big);
  if (read.u16(2) != 42) return 1;
  const size_t directory = read.u32(4);
  if (!read.holds(directory, 2)) return 1;
  const size_t count = read.u16(directory);
  for (size_t entry = 0; entry < count; ++entry) {
    const size_t at = directory + 2 + entry * entry_bytes;
    if (!read.holds(at, entry_bytes)) return 1;
    if (read.u16(at) != orientation_tag) continue;
    if (read.u16(at + 2) != type_short) return 1;
    const uint32_t value = read.u16(at + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;
  Image out(turned ? image.height : image.width, turned ? image.width : image.height);
  // Orientations 2..8 as: from which side the columns and the rows of the stored image are read.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < out.height; ++y) {
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      int from_x = turned ? y : x, from_y = turned ? x : y;
      if (from_right) from_x = image.width - 1 - from_x;
      if (from_bottom) from_y = image.height - 1 - from_y;
      std::memcpy(to, image.row(from_y) + static_cast<size_t>(from_x) * 3, 3);
    }
  }
  return out;
}

}  // namespace tenon::vision
