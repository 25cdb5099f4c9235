// SPDX-License-Identifier: Apache-2.0
#include "vision/tiff.h"

#include <tenon/error.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/counted.h"
#include "vision/exif.h"
#include "vision/tiff_unpack.h"

namespace tenon::vision {
namespace {

enum Tag : uint32_t {
  width_tag = 256,
  height_tag = 257,
  bits_tag = 258,
  packing_tag = 259,
  meaning_tag = 262,
  fill_order_tag = 266,
  strips_tag = 273,
  samples_tag = 277,
  rows_tag = 278,
  strip_bytes_tag = 279,
  planes_tag = 284,
  predictor_tag = 317,
  palette_tag = 320,
  tile_width_tag = 322,
  tile_height_tag = 323,
  tiles_tag = 324,
  tile_bytes_tag = 325,
  format_tag = 339,
};
enum Meaning : uint32_t { white_is_zero = 0, black_is_zero = 1, rgb = 2, indexed = 3, cmyk = 5 };
constexpr size_t entry_bytes = 12, max_samples = 16;

class Decoder {
 public:
  Decoder(std::span<const uint8_t> bytes, const std::string& name)
      : bytes_(bytes), name_(name), big_(bytes.size() > 0 && bytes[0] == 'M') {}

  Image decode() {
    require(0, 8);
    directory_ = u32(4);
    require(directory_, 2);
    entries_ = u16(directory_);
    require(directory_ + 2, entries_ * entry_bytes);
    read_kind();
    read_pieces();
    Image image(static_cast<int>(width_), static_cast<int>(height_));
    std::vector<uint8_t> piece(piece_pitch() * piece_height_);
    const size_t planes = planar_ ? samples_ : 1, across = (width_ + piece_width_ - 1) / piece_width_,
                 down = (height_ + piece_height_ - 1) / piece_height_;
    for (size_t plane = 0; plane < std::min(planes, wanted_); ++plane)
      for (size_t y = 0; y < down; ++y)
        for (size_t x = 0; x < across; ++x) {
          const size_t rows = tiled_ ? piece_height_ : std::min(piece_height_, height_ - y * piece_height_);
          const std::span<uint8_t> part = std::span(piece).first(piece_pitch() * rows);
          read_piece((plane * down + y) * across + x, part);
          place(part, x * piece_width_, y * piece_height_, plane, image);
        }
    if (meaning_ == cmyk) to_rgb(image);
    return upright(std::move(image), exif_orientation(bytes_));
  }

 private:
  [[noreturn]] void fail(const std::string& why, const std::string& hint = "") const {
    throw Error(Code::io, "cannot decode the TIFF image", {.where = name_, .why = why, .hint = hint});
  }
  void require(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) fail("the file ends in the middle");
  }
  uint32_t u16(size_t at) const { return big_ ? bytes_[at] << 8 | bytes_[at + 1] : bytes_[at + 1] << 8 | bytes_[at]; }
  uint32_t u32(size_t at) const { return big_ ? u16(at) << 16 | u16(at + 2) : u16(at + 2) << 16 | u16(at); }

  /// Numbers of an entry of the directory; none where it is not there.
  std::vector<size_t> values(Tag tag) const {
    std::vector<size_t> found;
    for (size_t entry = 0; entry < entries_; ++entry) {
      const size_t at = directory_ + 2 + entry * entry_bytes;
      if (u16(at) != tag) continue;
      const uint32_t type = u16(at + 2);
      const size_t count = u32(at + 4), size = type == 3 ? 2 : type == 4 ? 4 : type == 1 ? 1 : 0;
      if (size == 0) fail("entry " + std::to_string(tag) + " is of an unknown type");
      const bool inside = count <= 4 / size;
      const size_t begin = inside ? at + 8 : u32(at + 8);
      if (count > bytes_.size() / size) fail("the file ends in the middle");
      require(begin, count * size);
      for (size_t n = 0; n < count; ++n)
        found.push_back(size == 1 ? bytes_[begin + n] : size == 2 ? u16(begin + n * 2) : u32(begin + n * 4));
      break;
    }
    return found;
  }
  size_t value(Tag tag, size_t otherwise) const {
    const std::vector<size_t> all = values(tag);
    return all.empty() ? otherwise : all[0];
  }

  void read_kind() {
    width_ = value(width_tag, 0), height_ = value(height_tag, 0);
    if (width_ == 0 || height_ == 0) fail("it has no pixels");
    if (width_ > static_cast<size_t>(max_pixels) / height_)
      throw Error(Code::resource, "the image is too large",
                  {.where = name_, .why = std::to_string(width_) + "x" + std::to_string(height_) + " pixels"});
    packing_ = static_cast<TiffPacking>(value(packing_tag, 1));
    if (!is_known(packing_))
      fail("compression " + std::to_string(static_cast<int>(packing_)),
           "known are none, LZW, Deflate and PackBits; convert it to PNG");
    samples_ = value(samples_tag, 1);
    if (samples_ == 0 || samples_ > max_samples) fail(counted(samples_, "sample") + " a pixel");
    const std::vector<size_t> bits = values(bits_tag);
    bits_ = bits.empty() ? 1 : bits[0];
    if (std::any_of(bits.begin(), bits.end(), [&](size_t other) { return other != bits_; }))
      fail("its samples have different sizes");
    if (value(format_tag, 1) != 1) fail("its samples are not unsigned integers", "convert it to 8 or 16 bits");
    meaning_ = static_cast<uint32_t>(value(meaning_tag, black_is_zero));
    const bool small = bits_ == 1 || bits_ == 2 || bits_ == 4, one = meaning_ <= black_is_zero || meaning_ == indexed;
    if (meaning_ > cmyk || meaning_ == 4) fail("its colours are of an unknown kind (" + std::to_string(meaning_) + ")");
    if (!small && bits_ != 8 && bits_ != 16) fail(std::to_string(bits_) + " bits a sample");
    wanted_ = one ? 1 : meaning_ == cmyk ? 4 : 3;
    if (samples_ < wanted_) fail("it has too few samples for its colours");
    if ((small && samples_ != 1) || (meaning_ == indexed && bits_ > 8) || value(fill_order_tag, 1) != 1 ||
        (meaning_ == cmyk && bits_ != 8))
      fail("its samples are packed in an unknown way");
    planar_ = value(planes_tag, 1) == 2 && samples_ > 1;
    const size_t predictor = value(predictor_tag, 1);
    if (predictor > 2 || (predictor == 2 && small)) fail("predictor " + std::to_string(predictor));
    differences_ = predictor == 2;
    if (meaning_ == indexed) read_palette();
  }

  void read_palette() {
    const std::vector<size_t> colours = values(palette_tag);
    const size_t count = size_t{1} << bits_;
    if (colours.size() < 3 * count) fail("its palette is too short");
    for (size_t at = 0; at < count; ++at)
      for (size_t channel = 0; channel < 3; ++channel)
        palette_[at][channel] = static_cast<uint8_t>(colours[channel * count + at] >> 8);
  }

  /// Where strips or tiles lie. Sizes that the packed bytes cannot fill are refused before memory is taken for them.
  void read_pieces() {
    tiled_ = !values(tiles_tag).empty();
    piece_width_ = tiled_ ? value(tile_width_tag, 0) : width_;
    piece_height_ = tiled_ ? value(tile_height_tag, 0) : std::min(value(rows_tag, height_), height_);
    constexpr size_t max_side = 1 << 16;
    if (piece_width_ == 0 || piece_height_ == 0 || (tiled_ && std::max(piece_width_, piece_height_) > max_side) ||
        piece_width_ > static_cast<size_t>(max_pixels) / piece_height_)
      fail("its tiles or strips have no usable size");
    begins_ = values(tiled_ ? tiles_tag : strips_tag), sizes_ = values(tiled_ ? tile_bytes_tag : strip_bytes_tag);
    const size_t count = (width_ + piece_width_ - 1) / piece_width_ * ((height_ + piece_height_ - 1) / piece_height_) *
                         (planar_ ? samples_ : 1);
    if (begins_.size() < count || sizes_.size() < count) fail("tiles or strips are missing");
    size_t packed = 0;
    for (size_t at = 0; at < count; ++at) require(begins_[at], sizes_[at]), packed += sizes_[at];
    const size_t whole = (width_ * bits_ * (planar_ ? 1 : samples_) + 7) / 8 * height_;
    if (whole / most_growth(packing_) > packed) fail("the file ends in the middle");
    if (piece_pitch() * piece_height_ / most_growth(packing_) > bytes_.size()) fail("the file ends in the middle");
  }

  size_t together() const { return planar_ ? 1 : samples_; }
  size_t piece_pitch() const { return (piece_width_ * together() * bits_ + 7) / 8; }

  void read_piece(size_t at, std::span<uint8_t> out) const {
    if (!unpack(packing_, bytes_.subspan(begins_[at], sizes_[at]), out)) fail("its data are damaged or cut off");
    if (!differences_) return;
    const size_t step = together(), pitch = piece_pitch();
    for (size_t row = 0; row < out.size(); row += pitch) {
      uint8_t* line = out.data() + row;
      if (bits_ == 8)
        for (size_t n = step; n < pitch; ++n) line[n] = static_cast<uint8_t>(line[n] + line[n - step]);
      else
        for (size_t n = step; n < pitch / 2; ++n) {
          const size_t low = big_ ? 1 : 0, high = 1 - low;
          const auto number = [&](size_t of) { return line[of * 2 + high] << 8 | line[of * 2 + low]; };
          const int sum = number(n) + number(n - step);
          line[n * 2 + high] = static_cast<uint8_t>(sum >> 8), line[n * 2 + low] = static_cast<uint8_t>(sum);
        }
    }
  }

  /// A sample as 8 bits; of an index, as it is.
  uint8_t sample(const uint8_t* line, size_t at) const {
    if (bits_ == 8) return line[at];
    if (bits_ == 16) return line[at * 2 + (big_ ? 0 : 1)];
    const size_t bit = at * bits_;
    const uint32_t most = (1u << bits_) - 1, number = line[bit / 8] >> (8 - bits_ - bit % 8) & most;
    return static_cast<uint8_t>(meaning_ == indexed ? number : number * 255 / most);
  }

  /// Copies a piece to its place; the fourth ink goes into every colour, which are light by then.
  void place(std::span<const uint8_t> piece, size_t left, size_t top, size_t plane, Image& image) {
    const size_t columns = std::min(piece_width_, width_ - left), pitch = piece_pitch(), step = together();
    const size_t rows = std::min(piece.size() / pitch, height_ - top);
    if (meaning_ == cmyk && black_.empty()) black_.resize(width_ * height_);
    for (size_t y = 0; y < rows; ++y) {
      const uint8_t* line = piece.data() + y * pitch;
      for (size_t x = 0; x < columns; ++x) {
        uint8_t* to = image.row(static_cast<int>(top + y)) + (left + x) * 3;
        if (wanted_ == 1) {
          const uint8_t number = sample(line, x * step);
          if (meaning_ == indexed) std::copy_n(palette_[number].data(), 3, to);
          else std::fill_n(to, 3, static_cast<uint8_t>(meaning_ == white_is_zero ? 255 - number : number));
          continue;
        }
        for (size_t channel = planar_ ? plane : 0; channel < (planar_ ? plane + 1 : wanted_); ++channel) {
          const uint8_t number = sample(line, x * step + (planar_ ? 0 : channel));
          if (channel < 3) to[channel] = number;
          else black_[(top + y) * width_ + left + x] = number;
        }
      }
    }
  }

  void to_rgb(Image& image) const {
    for (size_t at = 0; at < image.pixels.size(); ++at)
      image.pixels[at] = static_cast<uint8_t>((255 - image.pixels[at]) * (255 - black_[at / 3]) / 255);
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  bool big_, planar_ = false, differences_ = false, tiled_ = false;
  size_t directory_ = 0, entries_ = 0, width_ = 0, height_ = 0, bits_ = 1, samples_ = 1, wanted_ = 1;
  size_t piece_width_ = 0, piece_height_ = 0;
  uint32_t meaning_ = black_is_zero;
  TiffPacking packing_ = TiffPacking::none;
  std::vector<size_t> begins_, sizes_;
  std::vector<uint8_t> black_;
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

}  // namespace

Image decode_tiff(std::span<const uint8_t> bytes, const std::string& name) { return Decoder(bytes, name).decode(); }

}  // namespace tenon::vision
