// SPDX-License-Identifier: Apache-2.0
#include "vision/bmp.h"

#include <tenon/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "vision/little_endian.h"

namespace tenon::vision {
namespace {

constexpr size_t file_header = 14, os2_header = 12, info_header = 40;
enum Compression : uint32_t { none = 0, rle8 = 1, rle4 = 2, masks = 3, masks_with_alpha = 6 };

struct Header {
  int width = 0, height = 0;
  bool from_top = false;
  uint32_t bits = 0, compression = none;
  size_t pixels = 0;                   // where they begin
  std::array<uint32_t, 3> channels{};  // masks of red, green and blue, at 16 and 32 bits
};

class Decoder {
 public:
  Decoder(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Image decode() {
    read_header();
    if (header_.bits <= 8) read_palette();
    if (header_.compression == rle8 || header_.compression == rle4) return unpack();
    const size_t pitch = (static_cast<size_t>(header_.width) * header_.bits + 31) / 32 * 4;
    require(header_.pixels, pitch * static_cast<size_t>(header_.height));
    Image image(header_.width, header_.height);
    for (int y = 0; y < header_.height; ++y)
      row(bytes_.subspan(header_.pixels + static_cast<size_t>(y) * pitch, pitch), image.row(stored(y)));
    return image;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Code::io, "cannot decode the BMP image", {.where = name_, .why = why});
  }
  void require(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) fail("the file ends in the middle");
  }
  /// The row of the image that row `y` of the file is.
  int stored(int y) const { return header_.from_top ? y : header_.height - 1 - y; }

  void read_header() {
    require(0, file_header + os2_header);
    const size_t size = le32(bytes_, file_header);
    header_.pixels = le32(bytes_, 10);
    int64_t width = 0, height = 0;
    if (size == os2_header) {
      width = le16(bytes_, 18), height = le16(bytes_, 20), header_.bits = le16(bytes_, 24);
    } else {
      if (size < info_header) fail("its header is of an unknown kind");
      require(0, file_header + size);
      width = static_cast<int32_t>(le32(bytes_, 18)), height = static_cast<int32_t>(le32(bytes_, 22));
      header_.bits = le16(bytes_, 28), header_.compression = le32(bytes_, 30);
    }
    header_.from_top = height < 0;
    height = std::abs(height);
    if (width <= 0 || height == 0) fail("it has no pixels");
    if (width > max_pixels / height)
      throw Error(Code::resource, "the image is too large",
                  {.where = name_, .why = std::to_string(width) + "x" + std::to_string(height) + " pixels"});
    header_.width = static_cast<int>(width), header_.height = static_cast<int>(height);
    read_masks(size);
    palette_begin_ = file_header + size;
    palette_entry_ = size == os2_header ? 3 : 4;
    palette_count_ = size == os2_header ? 0 : le32(bytes_, 46);
  }

  void read_masks(size_t size) {
    const uint32_t bits = header_.bits, kind = header_.compression;
    const bool indexed = bits == 1 || bits == 2 || bits == 4 || bits == 8;
    if (!indexed && bits != 16 && bits != 24 && bits != 32) fail(std::to_string(bits) + " bits a pixel");
    if (bits == 16) header_.channels = {0x7c00, 0x03e0, 0x001f};
    if (bits == 32) header_.channels = {0xff0000, 0x00ff00, 0x0000ff};
    if (kind == none || (kind == rle8 && bits == 8) || (kind == rle4 && bits == 4)) return;
    if ((kind != masks && kind != masks_with_alpha) || (bits != 16 && bits != 32))
      fail("its pixels are packed in an unknown way (" + std::to_string(kind) + ")");
    const size_t at = file_header + info_header;  // behind the short header, or inside a longer one
    require(at, 12);
    for (size_t channel = 0; channel < 3; ++channel) header_.channels[channel] = le32(bytes_, at + channel * 4);
    if (size == info_header && header_.pixels < at + 12) fail("its masks lie in its pixels");
    for (const uint32_t mask : header_.channels)
      if (mask == 0 || ((mask >> std::countr_zero(mask)) & ((mask >> std::countr_zero(mask)) + 1)) != 0)
        fail("its masks have gaps");
  }

  void read_palette() {
    const size_t most = size_t{1} << header_.bits;
    const size_t count = palette_count_ == 0 ? most : std::min<size_t>(palette_count_, most);
    require(palette_begin_, count * palette_entry_);
    for (size_t at = 0; at < count; ++at) {
      const uint8_t* entry = bytes_.data() + palette_begin_ + at * palette_entry_;
      palette_[at] = {entry[2], entry[1], entry[0]};
    }
  }

  void put(uint8_t* to, size_t index) const { std::copy_n(palette_[index & 255].data(), 3, to); }

  void row(std::span<const uint8_t> from, uint8_t* to) const {
    const auto width = static_cast<size_t>(header_.width);
    const uint32_t bits = header_.bits;
    for (size_t x = 0; x < width; ++x, to += 3) {
      if (bits <= 8) {
        const size_t bit = x * bits;
        put(to, from[bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1));
      } else if (bits == 24) {
        to[0] = from[x * 3 + 2], to[1] = from[x * 3 + 1], to[2] = from[x * 3];
      } else {
        const uint32_t value = bits == 16 ? le16(from, x * 2) : le32(from, x * 4);
        for (size_t channel = 0; channel < 3; ++channel) to[channel] = level(value, header_.channels[channel]);
      }
    }
  }

  /// What a mask picks, as a share of 255.
  static uint8_t level(uint32_t value, uint32_t mask) {
    const int shift = std::countr_zero(mask);
    const uint64_t most = mask >> shift;
    return static_cast<uint8_t>((((value & mask) >> shift) * uint64_t{255} + most / 2) / most);
  }

  /// Runs and literal stretches; pixels that none of them names are of the first colour.
  Image unpack() {
    Image image(header_.width, header_.height);
    for (size_t at = 0; at < image.pixels.size(); at += 3) put(image.pixels.data() + at, 0);
    const bool nibbles = header_.compression == rle4;
    int x = 0, y = 0;
    const auto paint = [&](size_t index) {
      if (x >= header_.width || y >= header_.height) fail("a run leaves the image");
      put(image.row(stored(y)) + static_cast<size_t>(x++) * 3, index);
    };
    for (size_t at = header_.pixels; y < header_.height;) {
      require(at, 2);
      const uint8_t count = bytes_[at], value = bytes_[at + 1];
      at += 2;
      if (count > 0) {
        for (int n = 0; n < count; ++n) paint(!nibbles ? value : n % 2 ? value & 15 : value >> 4);
      } else if (value == 0) {
        x = 0, ++y;
      } else if (value == 1) {
        return image;
      } else if (value == 2) {
        require(at, 2);
        x += bytes_[at], y += bytes_[at + 1];
        at += 2;
      } else {
        const size_t size = nibbles ? (value + 1u) / 2 : value;
        require(at, (size + 1) / 2 * 2);
        for (size_t n = 0; n < value; ++n)
          paint(!nibbles ? bytes_[at + n] : n % 2 ? bytes_[at + n / 2] & 15 : bytes_[at + n / 2] >> 4);
        at += (size + 1) / 2 * 2;
      }
    }
    return image;
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  Header header_;
  size_t palette_begin_ = 0, palette_entry_ = 4, palette_count_ = 0;
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

}  // namespace

Image decode_bmp(std::span<const uint8_t> bytes, const std::string& name) { return Decoder(bytes, name).decode(); }

}  // namespace tenon::vision
