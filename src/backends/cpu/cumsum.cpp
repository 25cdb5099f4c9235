// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/kernel.h"
#include "ops/broadcast.h"

namespace tenon::cpu::cumsum {
namespace {

using backends::Problem;
using backends::Reason;

constexpr int64_t tile = 512;       // neighbouring lines whose sums advance together
constexpr int64_t rows_beside = 8;  // rows whose sums do not wait for each other

/// The constant axis, counted from the front; none where it is not known or is none of the input's.
std::optional<size_t> axis_of(const Problem& problem) {
  const Tensor& axes = problem.inputs[1].constant;
  if (!axes || axes.elements() != 1 || (axes.dtype() != DType::i32 && axes.dtype() != DType::i64)) return std::nullopt;
  const auto rank = static_cast<int64_t>(problem.inputs[0].dims.rank());
  const int64_t axis = axes.dtype() == DType::i32 ? *axes.data<int32_t>() : *axes.data<int64_t>();
  if (axis < -rank || axis >= rank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

/// CumSum along any axis, in the order of the reference.
class CumSumStep : public backends::Step {
 public:
  explicit CumSumStep(const Problem& problem)
      : is_exclusive_(problem.node->integer("exclusive", 0)), ops_(row_ops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    const auto [outer, size, inner] = ops::around(dims, *axis_of(problem));
    outer_ = outer, count_ = size, inner_ = inner;
    const bool reverse = problem.node->integer("reverse", 0);
    first_ = reverse ? (size - 1) * inner : 0, step_ = reverse ? -inner : inner;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]) + first_;
    auto* y = reinterpret_cast<float*>(outputs[0]) + first_;
    const int64_t tiles = inner_ == 1 ? 1 : (inner_ + tile - 1) / tile, together = inner_ == 1 ? rows_beside : 1;
    int64_t begin, end;
    worker.share((outer_ + together - 1) / together * tiles, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t at = unit / tiles * together, column = unit % tiles * tile, from = at * count_ * inner_ + column;
      if (inner_ > 1) lines(x + from, y + from, std::min(tile, inner_ - column));
      else if (outer_ - at >= rows_beside) rows<rows_beside>(x + from, y + from);
      else
        for (int64_t row = at; row < outer_; ++row) rows<1>(x + row * count_, y + row * count_);
    }
  }

 private:
  template <int64_t kRows>
  void rows(const float* x, float* y) const {
    float sums[kRows] = {};
    for (int64_t at = 0; at < count_; ++at, x += step_, y += step_)
      for (int64_t row = 0; row < kRows; ++row) {
        const float next = sums[row] + x[row * count_];
        y[row * count_] = is_exclusive_ ? sums[row] : next;
        sums[row] = next;
      }
  }
  void lines(const float* x, float* y, int64_t width) const {
    if (is_exclusive_) std::fill_n(y, width, 0.f);
    else std::transform(x, x + width, y, [](float one) { return 0.f + one; });
    for (int64_t at = 1; at < count_; ++at, x += step_, y += step_)
      ops_.binary(expr::Id::Add, y + step_, y, 1, is_exclusive_ ? x : x + step_, 1, width);
  }

  bool is_exclusive_;
  int64_t outer_, count_, inner_;  // lines lie around the axis as in ops::Around
  int64_t first_, step_;           // the first element of a line, and from each to the next
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (!axis_of(problem)) return {Reason::not_constant, "the axis"};
  return problem.inputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<CumSumStep>(problem); }

const backends::KernelRegistrar registered({"CumSum", "lines", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::cumsum
