// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"

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

/// Linear samples of two axes: the neighbours of a point once, then all channels. Points are of f32 or f64.
template <class Real>
class LinearStep : public backends::Step {
 public:
  explicit LinearStep(const Problem& problem)
      : x_(problem.inputs[0].dims),
        y_(problem.outputs[0].dims),
        corners_(problem.node->integer("align_corners", 0) != 0) {
    const std::string padding = problem.node->text("padding_mode", "zeros");
    padding_ = padding == "border" ? Padding::border : padding == "reflection" ? Padding::reflection : Padding::zeros;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* grid = reinterpret_cast<const Real*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const int64_t channels = x_[1], in = x_[2] * x_[3], out = y_[2] * y_[3];
    int64_t begin, end;
    worker.share(y_[0] * out, begin, end);
    for (int64_t point = begin; point < end; ++point) {
      const int64_t image = point / out;
      const Pair across = neighbours(grid[point * 2], x_[3]), down = neighbours(grid[point * 2 + 1], x_[2]);
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

  Dims x_, y_;
  bool corners_;
  Padding padding_;
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
std::unique_ptr<backends::Step> make(const Problem& problem) {
  if (problem.inputs[1].dtype == DType::f64) return std::make_unique<LinearStep<double>>(problem);
  return std::make_unique<LinearStep<float>>(problem);
}

const backends::KernelRegistrar registered({"GridSample", "linear", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::grid_sample
