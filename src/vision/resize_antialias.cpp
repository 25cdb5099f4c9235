// SPDX-License-Identifier: Apache-2.0
#include "vision/resize_antialias.h"

#include <algorithm>
#include <cmath>

#include "vision/clones.h"

namespace tenon::vision {
namespace {

constexpr int precision = 22;
constexpr int32_t half_step = 1 << (precision - 1);

/// For each result pixel: which source pixels it takes, and their fixed-point weights.
struct Filter {
  struct Span {
    int first, count;
    size_t weights;
  };
  std::vector<Span> spans;
  std::vector<int32_t> weights;
};

Filter triangle(int source, int result, int begin, int count) {
  const double scale = static_cast<double>(source) / result;
  const double reach = std::max(scale, 1.0);
  Filter filter;
  std::vector<double> taps;
  for (int at = begin; at < begin + count; ++at) {
    const double center = (at + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - reach + 0.5), 0);
    const int last = std::min(static_cast<int>(center + reach + 0.5), source);
    taps.clear();
    double sum = 0;
    for (int pixel = first; pixel < last; ++pixel) {
      const double distance = std::abs((pixel - center + 0.5) * (1.0 / reach));
      taps.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
      sum += taps.back();
    }
    filter.spans.push_back({first, last - first, filter.weights.size()});
    for (const double tap : taps) {
      const double share = sum != 0 ? tap / sum : tap;
      filter.weights.push_back(static_cast<int32_t>(share * (1 << precision) + 0.5));
    }
  }
  return filter;
}

uint8_t clip(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255)); }

void filter_columns(const uint8_t* source, const Filter& filter, uint8_t* planes) {
  const size_t width = filter.spans.size();
  for (size_t x = 0; x < width; ++x) {
    const Filter::Span span = filter.spans[x];
    const uint8_t* pixel = source + static_cast<size_t>(span.first) * 3;
    const int32_t* weight = filter.weights.data() + span.weights;
    int32_t red = half_step, green = half_step, blue = half_step;
    for (int tap = 0; tap < span.count; ++tap, pixel += 3) {
      red += pixel[0] * weight[tap];
      green += pixel[1] * weight[tap];
      blue += pixel[2] * weight[tap];
    }
    planes[x] = clip(red);
    planes[width + x] = clip(green);
    planes[2 * width + x] = clip(blue);
  }
}

TENON_CLONES void accumulate(const uint8_t* row, int32_t weight, size_t count, int32_t* sums) {
  for (size_t x = 0; x < count; ++x) sums[x] += row[x] * weight;
}

TENON_CLONES void finish(const int32_t* sums, size_t count, uint8_t* out) {
  for (size_t x = 0; x < count; ++x) {
    const int32_t value = sums[x] >> precision;
    out[x] = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

class Antialias final : public Resampler {
 public:
  Antialias(const Image& image, int width, int height, const Region& region)
      : down_(triangle(image.height, height, region.y, region.height)),
        pitch_(static_cast<size_t>(region.width) * 3),
        sums_(pitch_) {
    first_ = image.height;
    int end = 0;
    for (const Filter::Span& span : down_.spans) {
      first_ = std::min(first_, span.first);
      end = std::max(end, span.first + span.count);
    }
    if (end <= first_) return;
    const Filter across = triangle(image.width, width, region.x, region.width);
    narrowed_.resize(static_cast<size_t>(end - first_) * pitch_);
    for (int y = first_; y < end; ++y)
      filter_columns(image.row(y), across, narrowed_.data() + static_cast<size_t>(y - first_) * pitch_);
  }

  void row(int y, uint8_t* planes) override {
    const Filter::Span span = down_.spans[static_cast<size_t>(y)];
    std::fill(sums_.begin(), sums_.end(), half_step);
    for (int tap = 0; tap < span.count; ++tap)
      accumulate(narrowed_.data() + static_cast<size_t>(span.first + tap - first_) * pitch_,
                 down_.weights[span.weights + static_cast<size_t>(tap)], pitch_, sums_.data());
    finish(sums_.data(), pitch_, planes);
  }

 private:
  Filter down_;
  size_t pitch_;
  int first_ = 0;
  std::vector<uint8_t> narrowed_;
  std::vector<int32_t> sums_;
};

}  // namespace

std::unique_ptr<Resampler> antialias_resampler(const Image& image, int width, int height, const Region& region) {
  return std::make_unique<Antialias>(image, width, height, region);
}

}  // namespace tenon::vision
