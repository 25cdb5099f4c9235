// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/support.h"
#include "ops/op.h"

namespace tenon::cpu::roi_align {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_ratio = 8;

/// The image is turned to channels last once; then each bin of a region is a weighted sum of whole pixels.
class PixelsStep : public backends::Step {
 public:
  explicit PixelsStep(const Problem& problem)
      : node_(*problem.node),
        x_(problem.inputs[0].dims),
        y_(problem.outputs[0].dims),
        ratio_(problem.node->integer("sampling_ratio", 0)),
        half_pixel_(problem.node->text("coordinate_transformation_mode", "half_pixel") == "half_pixel"),
        scale_(problem.node->real("spatial_scale", 1)),
        threads_(problem.threads),
        loops_(loops(isa_for(problem))) {
    image_ = set_apart(static_cast<size_t>(x_.elements()) * sizeof(float));
    bins_ = set_apart(static_cast<size_t>(y_[1] * y_[2] * y_[3]) * sizeof(float));
    taps_ = set_apart(static_cast<size_t>(4 * ratio_ * ratio_) * (sizeof(float) + sizeof(int64_t)));
  }
  size_t workspace_bytes() const override { return image_ + (bins_ + taps_) * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* pixels = reinterpret_cast<float*>(worker.workspace);
    const auto* images = reinterpret_cast<const int64_t*>(inputs[2]);
    // Every worker looks at all of them, so that none waits for one that has failed.
    for (int64_t r = 0; r < y_[0]; ++r)
      if (images[r] < 0 || images[r] >= x_[0]) ops::fail_at(node_, "a batch index is " + std::to_string(images[r]));
    turn(reinterpret_cast<const float*>(inputs[0]), pixels, worker);
    worker.sync();
    const auto* rois = reinterpret_cast<const float*>(inputs[1]);
    std::byte* own = worker.workspace + image_ + (bins_ + taps_) * static_cast<size_t>(worker.id);
    auto* bins = reinterpret_cast<float*>(own);
    auto* offsets = reinterpret_cast<int64_t*>(own + bins_);
    auto* weights = reinterpret_cast<float*>(offsets + 4 * ratio_ * ratio_);
    const int64_t channels = x_[1], count = y_[2] * y_[3];
    int64_t begin, end;
    worker.share(y_[0], begin, end);
    for (int64_t r = begin; r < end; ++r) {
      float* to = reinterpret_cast<float*>(outputs[0]) + r * channels * count;
      region(rois + r * 4, pixels + images[r] * x_[2] * x_[3] * channels, bins, offsets, weights);
      loops_.turn(reinterpret_cast<uint32_t*>(to), count, reinterpret_cast<const uint32_t*>(bins), channels, count,
                  channels);
    }
  }

 private:
  /// Channels last, a block of channels at a time.
  void turn(const float* from, float* to, const Worker& worker) const {
    constexpr int64_t block = 16;
    const int64_t channels = x_[1], plane = x_[2] * x_[3], wide = (plane + block - 1) / block;
    int64_t begin, end;
    worker.share(x_[0] * wide, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / wide, first = unit % wide * block, last = std::min(plane, first + block);
      const float* source = from + image * channels * plane;
      float* target = to + image * channels * plane;
      for (int64_t c0 = 0; c0 < channels; c0 += block)
        for (int64_t p = first; p < last; ++p)
          for (int64_t c = c0; c < std::min(channels, c0 + block); ++c)
            target[p * channels + c] = source[c * plane + p];
    }
  }

  /// The neighbours of a coordinate and the weight of the second; false where it lies outside.
  static bool neighbours(double at, int64_t size, int64_t& first, int64_t& second, double& weight) {
    if (!(at >= -1 && at <= static_cast<double>(size))) return false;
    at = std::max(at, 0.0);
    first = static_cast<int64_t>(at);
    if (first >= size - 1) first = size - 1, at = static_cast<double>(first);
    second = std::min(first + 1, size - 1);
    weight = at - static_cast<double>(first);
    return true;
  }

  void region(const float* roi, const float* image, float* bins, int64_t* offsets, float* weights) const {
    const double shift = half_pixel_ ? 0.5 : 0, left = roi[0] * scale_ - shift, top = roi[1] * scale_ - shift;
    double w = roi[2] * scale_ - shift - left, h = roi[3] * scale_ - shift - top;
    if (!half_pixel_) w = std::max(w, 1.0), h = std::max(h, 1.0);
    const int64_t channels = x_[1];
    const double bin_h = h / static_cast<double>(y_[2]), bin_w = w / static_cast<double>(y_[3]);
    const double each = 1 / static_cast<double>(ratio_ * ratio_), ratio = static_cast<double>(ratio_);
    for (int64_t i = 0; i < y_[2]; ++i)
      for (int64_t j = 0; j < y_[3]; ++j) {
        int64_t taps = 0;
        for (int64_t p = 0; p < ratio_; ++p)
          for (int64_t q = 0; q < ratio_; ++q) {
            int64_t y0, y1, x0, x1;
            double down, across;
            if (!neighbours(top + bin_h * (static_cast<double>(i) + (static_cast<double>(p) + 0.5) / ratio), x_[2], y0,
                            y1, down) ||
                !neighbours(left + bin_w * (static_cast<double>(j) + (static_cast<double>(q) + 0.5) / ratio), x_[3], x0,
                            x1, across))
              continue;
            const auto add = [&](int64_t y, int64_t x, double weight) {
              offsets[taps] = (y * x_[3] + x) * channels;
              weights[taps++] = static_cast<float>(weight * each);
            };
            add(y0, x0, (1 - down) * (1 - across));
            add(y0, x1, (1 - down) * across);
            add(y1, x0, down * (1 - across));
            add(y1, x1, down * across);
          }
        float* to = bins + (i * y_[3] + j) * channels;
        if (taps > 0) loops_.weighted(to, image, offsets, weights, taps, channels);
        else std::fill_n(to, channels, 0.f);
      }
  }

  const ir::Node& node_;
  Dims x_, y_;
  int64_t ratio_;
  bool half_pixel_;
  double scale_;
  int threads_;
  const Loops& loops_;
  size_t image_, bins_, taps_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &rois = problem.inputs[1], &images = problem.inputs[2];
  if (x.dtype != DType::f32 || rois.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (images.dtype != DType::i64) return {Reason::element_type, "batch indices", "i64"};
  if (problem.node->text("mode", "avg") != "avg") return {Reason::attribute, "mode", "avg"};
  const int64_t ratio = problem.node->integer("sampling_ratio", 0);
  if (ratio < 1 || ratio > most_ratio) return {Reason::attribute, "sampling_ratio", "1 to 8"};
  if (x.dims.rank() != 4 || rois.dims.rank() != 2 || images.dims.elements() != problem.outputs[0].dims[0] ||
      rois.dims[0] != images.dims.elements())
    return {Reason::shape, "regions", "an image each"};
  return x.dims.elements() == 0 || problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<PixelsStep>(problem); }

const backends::KernelRegistrar registered({"RoiAlign", "pixels", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::roi_align
