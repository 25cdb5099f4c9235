// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu::grid_sample {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

enum class Padding : uint8_t { zeros, border, reflection };

/// The two neighbours of a coordinate; a weight of zero where one lies outside.
struct Pair {
  int64_t at[2];
  float weight[2];
};

/// Where the points of a grid lie in an image, of f32 or f64.
template <class Real>
class Points {
 public:
  explicit Points(const Problem& problem)
      : high_(problem.inputs[0].dims[2]),
        wide_(problem.inputs[0].dims[3]),
        corners_(problem.node->integer("align_corners", 0) != 0) {
    const std::string padding = problem.node->text("padding_mode", "zeros");
    padding_ = padding == "border" ? Padding::border : padding == "reflection" ? Padding::reflection : Padding::zeros;
  }
  /// The four pixels around a point, and their weights.
  void corners(const Real* point, int64_t* at, float* weights) const {
    const Pair across = neighbours(point[0], wide_), down = neighbours(point[1], high_);
    for (int corner = 0; corner < 4; ++corner) {
      at[corner] = down.at[corner / 2] * wide_ + across.at[corner % 2];
      weights[corner] = down.weight[corner / 2] * across.weight[corner % 2];
    }
  }
  Pair across(const Real* point) const { return neighbours(point[0], wide_); }
  Pair down(const Real* point) const { return neighbours(point[1], high_); }

 private:
  /// Folds a coordinate into [low, high] by reflections at both ends.
  static Real reflected(Real x, Real low, Real high) {
    const Real range = high - low;
    if (range <= 0) return low;
    const Real away = std::fabs(x - low), turns = std::floor(away / range), rest = away - turns * range;
    return std::fmod(turns, Real(2)) == 0 ? low + rest : high - rest;
  }
  Pair neighbours(Real normal, int64_t size) const {
    const auto count = static_cast<Real>(size), last = count - 1, half = Real(0.5);
    Real x = corners_ ? (normal + 1) * half * last : ((normal + 1) * count - 1) * half;
    if (!std::isfinite(x)) x = Real(-1e9);
    if (padding_ == Padding::reflection) x = corners_ ? reflected(x, 0, last) : reflected(x, -half, last + half);
    if (padding_ != Padding::zeros) x = std::min(std::max(x, Real(0)), last);
    else if (!(x > -1 && x < count)) return {{0, 0}, {0, 0}};
    const Real base = std::floor(x);
    const auto t = static_cast<float>(x - base);
    const auto first = static_cast<int64_t>(base);
    Pair pair{{first, first + 1}, {1 - t, t}};
    if (first < 0) pair.at[0] = 0, pair.weight[0] = 0;
    if (first + 1 >= size) pair.at[1] = size - 1, pair.weight[1] = 0;
    return pair;
  }

  int64_t high_, wide_;
  bool corners_;
  Padding padding_;
};

/// Linear samples of two axes: the neighbours of a point once, then all channels.
template <class Real>
class LinearStep : public backends::Step {
 public:
  explicit LinearStep(const Problem& problem)
      : points_(problem), x_(problem.inputs[0].dims), y_(problem.outputs[0].dims) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* grid = reinterpret_cast<const Real*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const int64_t channels = x_[1], in = x_[2] * x_[3], out = y_[2] * y_[3];
    int64_t begin, end;
    worker.share(y_[0] * out, begin, end);
    for (int64_t point = begin; point < end; ++point) {
      const int64_t image = point / out;
      const Pair across = points_.across(grid + point * 2), down = points_.down(grid + point * 2);
      const float* plane = x + image * channels * in;
      float* to = y + image * channels * out + point % out;
      const int64_t a = down.at[0] * x_[3] + across.at[0], b = down.at[0] * x_[3] + across.at[1],
                    c = down.at[1] * x_[3] + across.at[0], d = down.at[1] * x_[3] + across.at[1];
      for (int64_t channel = 0; channel < channels; ++channel, plane += in, to += out)
        *to = down.weight[0] * (across.weight[0] * plane[a] + across.weight[1] * plane[b]) +
              down.weight[1] * (across.weight[0] * plane[c] + across.weight[1] * plane[d]);
    }
  }

 private:
  Points<Real> points_;
  Dims x_, y_;
};

/// The same of many channels: images are turned to channels last, samples are weighted sums of whole pixels, and are
/// turned back some points at a time.
template <class Real>
class PixelsStep : public backends::Step {
 public:
  explicit PixelsStep(const Problem& problem)
      : points_(problem),
        x_(problem.inputs[0].dims),
        y_(problem.outputs[0].dims),
        threads_(problem.threads),
        loops_(loops(isa_for(problem))) {
    image_ = set_apart(static_cast<size_t>(x_.elements()) * sizeof(float));
    samples_ = set_apart(static_cast<size_t>(block * x_[1]) * sizeof(float));
  }
  size_t workspace_bytes() const override { return image_ + samples_ * static_cast<size_t>(threads_); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const uint32_t*>(inputs[0]);
    const auto* grid = reinterpret_cast<const Real*>(inputs[1]);
    auto* y = reinterpret_cast<uint32_t*>(outputs[0]);
    auto* pixels = reinterpret_cast<float*>(worker.workspace);
    auto* samples = reinterpret_cast<float*>(worker.workspace + image_ + samples_ * static_cast<size_t>(worker.id));
    const int64_t channels = x_[1], in = x_[2] * x_[3], out = y_[2] * y_[3], blocks = (out + block - 1) / block;
    int64_t begin, end;
    worker.share(x_[0] * x_[2], begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / x_[2] * channels * in, first = row % x_[2] * x_[3];
      loops_.turn(reinterpret_cast<uint32_t*>(pixels) + image + first * channels, channels, x + image + first, in,
                  channels, x_[3]);
    }
    worker.sync();
    worker.share(y_[0] * blocks, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / blocks, first = unit % blocks * block, count = std::min(block, out - first);
      for (int64_t point = 0; point < count; ++point) {
        int64_t at[4];
        float weights[4];
        points_.corners(grid + (image * out + first + point) * 2, at, weights);
        for (int64_t& offset : at) offset *= channels;
        loops_.weighted(samples + point * channels, pixels + image * channels * in, at, weights, 4, channels);
      }
      loops_.turn(y + image * channels * out + first, out, reinterpret_cast<const uint32_t*>(samples), channels, count,
                  channels);
    }
  }

 private:
  static constexpr int64_t block = 64;  // points at a time
  Points<Real> points_;
  Dims x_, y_;
  int threads_;
  const Loops& loops_;
  size_t image_, samples_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &grid = problem.inputs[1];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (grid.dtype != DType::f32 && grid.dtype != DType::f64) return {Reason::element_type, "the grid", "f32 or f64"};
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  const std::string mode = problem.node->text("mode", "linear");
  if (mode != "linear" && mode != "bilinear") return {Reason::attribute, "mode", "linear"};
  return x.dims.elements() == 0 || problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
/// Images are turned for as many points as they have pixels, or nearly.
Reason refuses_pixels(const Problem& problem) {
  if (const Reason reason = refuses(problem)) return reason;
  const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
  if (x[1] < 8) return {Reason::shape, "the input", "eight channels"};
  return x[2] * x[3] > 4 * y[2] * y[3] ? Reason(Reason::shape, "the output", "a quarter as many points") : Reason();
}

template <template <class> class Kind>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  if (problem.inputs[1].dtype == DType::f64) return std::make_unique<Kind<double>>(problem);
  return std::make_unique<Kind<float>>(problem);
}

const backends::KernelRegistrar linear({"GridSample", "linear", 1, refuses_any<refuses>, make_any<make<LinearStep>>});
const backends::KernelRegistrar pixels({"GridSample", "pixels", 2, refuses_any<refuses_pixels>,
                                        make_any<make<PixelsStep>>});

}  // namespace
}  // namespace tenon::cpu::grid_sample
