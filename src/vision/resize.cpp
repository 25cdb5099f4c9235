// SPDX-License-Identifier: Apache-2.0
#include "vision/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "vision/clones.h"
#include "vision/resize_antialias.h"
#include "vision/resize_linear.h"

namespace tenon::vision {
namespace {

TENON_CLONES void separate(const uint8_t* pixels, size_t count, uint8_t* red, uint8_t* green, uint8_t* blue) {
  for (size_t x = 0; x < count; ++x) {
    red[x] = pixels[x * 3];
    green[x] = pixels[x * 3 + 1];
    blue[x] = pixels[x * 3 + 2];
  }
}

class Copy final : public Resampler {
 public:
  Copy(const Image& image, const Region& region) : image_(image), region_(region) {}
  void row(int y, uint8_t* planes) override {
    const size_t width = static_cast<size_t>(region_.width);
    separate(image_.row(region_.y + y) + static_cast<size_t>(region_.x) * 3, width, planes, planes + width,
             planes + 2 * width);
  }

 private:
  const Image& image_;
  Region region_;
};

class Nearest final : public Resampler {
 public:
  Nearest(const Image& image, int width, int height, const Region& region) : image_(image), region_(region) {
    scale_y_ = 1.0 / (static_cast<double>(height) / image.height);
    const double scale_x = 1.0 / (static_cast<double>(width) / image.width);
    for (int x = 0; x < region.width; ++x)
      columns_.push_back(std::min(static_cast<int>(std::floor((x + region.x) * scale_x)), image.width - 1));
  }
  void row(int y, uint8_t* planes) override {
    const int from = std::min(static_cast<int>(std::floor((y + region_.y) * scale_y_)), image_.height - 1);
    const uint8_t* source = image_.row(from);
    const size_t width = columns_.size();
    for (size_t x = 0; x < width; ++x)
      for (size_t channel = 0; channel < 3; ++channel)
        planes[channel * width + x] = source[static_cast<size_t>(columns_[x]) * 3 + channel];
  }

 private:
  const Image& image_;
  Region region_;
  double scale_y_;
  std::vector<int> columns_;
};

}  // namespace

std::unique_ptr<Resampler> resampler(const Image& image, int width, int height, Interpolation interpolation,
                                     const Region& region) {
  TENON_CHECK(image.width > 0 && image.height > 0 && width > 0 && height > 0, "empty image");
  TENON_CHECK(region.x >= 0 && region.y >= 0 && region.width <= width - region.x && region.height <= height - region.y,
              "region leaves the image");
  if (width == image.width && height == image.height) return std::make_unique<Copy>(image, region);
  switch (interpolation) {
    case Interpolation::nearest: return std::make_unique<Nearest>(image, width, height, region);
    case Interpolation::antialias: return antialias_resampler(image, width, height, region);
    case Interpolation::cv_linear: return linear_resampler(image, width, height, region);
  }
  TENON_CHECK(false, "unknown interpolation");
  return nullptr;
}

Image resize(const Image& image, int width, int height, Interpolation interpolation) {
  Image out(width, height);
  const auto rows = resampler(image, width, height, interpolation, {0, 0, width, height});
  std::vector<uint8_t> planes(out.pitch());
  for (int y = 0; y < height; ++y) {
    rows->row(y, planes.data());
    uint8_t* to = out.row(y);
    for (size_t x = 0, count = static_cast<size_t>(width); x < count; ++x)
      for (size_t channel = 0; channel < 3; ++channel) to[x * 3 + channel] = planes[channel * count + x];
  }
  return out;
}

}  // namespace tenon::vision
