// SPDX-License-Identifier: Apache-2.0
#include "vision/resize_linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "vision/clones.h"

namespace tenon::vision {
namespace {

constexpr float weight_one = 2048;

struct Tap {
  int32_t first;  // source pixel; its partner is the next one
  int16_t near, far;
};

Tap tap_at(int at, double scale) {
  float place = static_cast<float>((at + 0.5) * scale - 0.5);
  const int first = static_cast<int>(std::floor(place));
  place -= static_cast<float>(first);
  return {first, static_cast<int16_t>(std::lrint((1.0f - place) * weight_one)),
          static_cast<int16_t>(std::lrint(place * weight_one))};
}

// Sums of two 8-bit values under 11-bit weights, four bits dropped, fit in 15 bits.
void blend_columns(const uint8_t* source, const Tap* taps, size_t count, size_t step, int16_t* planes) {
  int16_t* red = planes;
  int16_t* green = planes + count;
  int16_t* blue = planes + 2 * count;
  for (size_t x = 0; x < count; ++x) {
    const uint8_t* near = source + taps[x].first;
    const uint8_t* far = near + step;
    const int32_t a = taps[x].near, b = taps[x].far;
    red[x] = static_cast<int16_t>((near[0] * a + far[0] * b) >> 4);
    green[x] = static_cast<int16_t>((near[1] * a + far[1] * b) >> 4);
    blue[x] = static_cast<int16_t>((near[2] * a + far[2] * b) >> 4);
  }
}

TENON_CLONES void blend_rows(const int16_t* near, const int16_t* far, int16_t a, int16_t b, size_t count,
                             uint8_t* out) {
  for (size_t x = 0; x < count; ++x) {
    const auto first = static_cast<int16_t>((a * near[x]) >> 16);
    const auto second = static_cast<int16_t>((b * far[x]) >> 16);
    out[x] = static_cast<uint8_t>(static_cast<uint16_t>(first + second + 2) >> 2);
  }
}

class Linear final : public Resampler {
 public:
  Linear(const Image& image, int width, int height, const Region& region)
      : image_(image), region_(region), scale_y_(1.0 / (static_cast<double>(height) / image.height)) {
    const double scale_x = 1.0 / (static_cast<double>(width) / image.width);
    taps_.reserve(static_cast<size_t>(region.width));
    for (int x = 0; x < region.width; ++x) {
      Tap tap = tap_at(x + region.x, scale_x);
      if (tap.first < 0) tap = {0, static_cast<int16_t>(weight_one), 0};
      // The last column has no partner to its right: it is the far one of its left neighbour.
      if (tap.first >= image.width - 1) tap = {std::max(image.width - 2, 0), 0, static_cast<int16_t>(weight_one)};
      tap.first *= 3;
      taps_.push_back(tap);
    }
    for (Line& line : lines_) line.values.resize(taps_.size() * 3);
  }

  void row(int y, uint8_t* planes) override {
    const Tap tap = tap_at(y + region_.y, scale_y_);
    const int last = image_.height - 1;
    const int near = std::clamp(tap.first, 0, last), far = std::clamp(tap.first + 1, 0, last);
    // The far row of one result is often the near row of the next.
    if (lines_[0].y != near && lines_[1].y == near) std::swap(lines_[0], lines_[1]);
    fill(lines_[0], near);
    if (far != near) fill(lines_[1], far);
    const int16_t* below = lines_[far == near ? 0 : 1].values.data();
    blend_rows(lines_[0].values.data(), below, tap.near, tap.far, taps_.size() * 3, planes);
  }

 private:
  struct Line {
    int y = -1;
    std::vector<int16_t> values;
  };

  void fill(Line& line, int y) {
    if (line.y == y) return;
    blend_columns(image_.row(y), taps_.data(), taps_.size(), image_.width > 1 ? 3 : 0, line.values.data());
    line.y = y;
  }

  const Image& image_;
  Region region_;
  double scale_y_;
  std::vector<Tap> taps_;
  std::array<Line, 2> lines_;
};

class Half final : public Resampler {
 public:
  Half(const Image& image, const Region& region) : image_(image), region_(region) {}
  void row(int y, uint8_t* planes) override {
    const size_t width = static_cast<size_t>(region_.width), start = static_cast<size_t>(region_.x) * 6;
    mean(image_.row(2 * (region_.y + y)) + start, image_.row(2 * (region_.y + y) + 1) + start, width, planes);
  }

 private:
  static void mean(const uint8_t* upper, const uint8_t* lower, size_t width, uint8_t* planes) {
    for (size_t x = 0; x < width; ++x)
      for (size_t channel = 0; channel < 3; ++channel) {
        const size_t at = x * 6 + channel;
        planes[channel * width + x] =
            static_cast<uint8_t>((upper[at] + upper[at + 3] + lower[at] + lower[at + 3] + 2) >> 2);
      }
  }

  const Image& image_;
  Region region_;
};

}  // namespace

std::unique_ptr<Resampler> linear_resampler(const Image& image, int width, int height, const Region& region) {
  if (image.width == 2 * width && image.height == 2 * height) return std::make_unique<Half>(image, region);
  return std::make_unique<Linear>(image, width, height, region);
}

}  // namespace tenon::vision
