// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "ops/broadcast.h"
#include "ops/op.h"

namespace tenon::cpu::softmax_axis {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t tile = 256;      // neighbouring lines done together
constexpr int64_t few_elements = 8 << 10;  // of lines that pass through L1 three times
constexpr int64_t short_row = 24;  // elements: above, rows are as fast by themselves

/// Softmax and LogSoftmax along any axis: a tile of lines advances through the axis together.
class AxisStep : public backends::Step {
 public:
  explicit AxisStep(const Problem& problem)
      : log_(ops::has_trait(problem.node->op, ops::Trait::logarithm)),
        ops_(row_ops(isa_for(problem))),
        loops_(loops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    int64_t axis = problem.node->integer("axis", -1);
    if (axis < 0) axis += static_cast<int64_t>(dims.rank());
    const auto [outer, size, inner] = ops::around(dims, static_cast<size_t>(axis));
    outer_ = outer, count_ = size, inner_ = inner;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    if (inner_ == 1 && count_ <= short_row)
      return turned(reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<float*>(outputs[0]), worker);
    if (inner_ == 1)
      return rows(reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<float*>(outputs[0]), worker);
    const int64_t tiles = (inner_ + tile - 1) / tile;
    int64_t begin, end;
    if (is_small()) {
      constexpr int64_t beside = 64;  // lines
      const int64_t parts = (inner_ + beside - 1) / beside;
      worker.share(outer_ * parts, begin, end);
      for (; begin < end; ++begin) {
        const int64_t first = begin % parts * beside, at = begin / parts * count_ * inner_ + first;
        ops_.softmax_lines(reinterpret_cast<float*>(outputs[0]) + at, reinterpret_cast<const float*>(inputs[0]) + at,
                           std::min(beside, inner_ - first), inner_, count_);
      }
      return;
    }
    worker.share(outer_ * tiles, begin, end);
    if (2 * inner_ <= tile) {
      for (int64_t at = begin * count_ * inner_; begin < end; ++begin, at += count_ * inner_)
        narrow(reinterpret_cast<const float*>(inputs[0]) + at, reinterpret_cast<float*>(outputs[0]) + at);
      return;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit / tiles * count_ * inner_ + unit % tiles * tile;
      lines(reinterpret_cast<const float*>(inputs[0]) + first, reinterpret_cast<float*>(outputs[0]) + first,
            std::min(tile, inner_ - unit % tiles * tile), inner_);
    }
  }

 private:
  void rows(const float* x, float* y, const Worker& worker) const {
    int64_t begin, end;
    worker.share(outer_, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row * count_;
      float* to = y + row * count_;
      const float highest = loops_.fold(Fold::max, Before::none, from, count_);
      ops_.binary(expr::Id::Sub, to, from, 1, &highest, 0, count_);
      if (!log_) {
        ops_.unary(expr::Id::Exp, 0, 0, to, to, count_);
        ops_.scale(to, 1.f / loops_.fold(Fold::sum, Before::none, to, count_), count_);
        continue;
      }
      double sum = 0;
      float power[tile];
      for (int64_t at = 0; at < count_; at += tile) {
        const int64_t size = std::min(tile, count_ - at);
        ops_.unary(expr::Id::Exp, 0, 0, power, to + at, size);
        sum += loops_.fold(Fold::sum, Before::none, power, size);
      }
      const auto shift = static_cast<float>(std::log(sum));
      ops_.binary(expr::Id::Sub, to, to, 1, &shift, 0, count_);
    }
  }
  /// Short rows as columns of a square, where they lie side by side as lines do.
  void turned(const float* x, float* y, const Worker& worker) const {
    alignas(64) float square[short_row * tile];
    int64_t begin, end;
    worker.share(outer_, begin, end);
    for (int64_t row = begin; row < end; row += tile) {
      const int64_t width = std::min(tile, end - row);
      loops_.turn(reinterpret_cast<uint32_t*>(square), tile, reinterpret_cast<const uint32_t*>(x + row * count_),
                  count_, width, count_);
      lines(square, square, width, tile);
      loops_.turn(reinterpret_cast<uint32_t*>(y + row * count_), count_, reinterpret_cast<const uint32_t*>(square),
                  tile, count_, width);
    }
  }
  /// Lines side by side, `pitch` from each of their elements to the next; y may be x.
  void lines(const float* x, float* y, int64_t width, int64_t pitch) const {
    float highest[tile], sum[tile];
    std::copy(x, x + width, highest);
    for (int64_t at = 1; at < count_; ++at) loops_.fold_into(Fold::max, Before::none, highest, x + at * pitch, width);
    std::fill(sum, sum + width, 0.f);
    for (int64_t at = 0; at < count_; ++at) {
      float* row = y + at * pitch;
      ops_.binary(expr::Id::Sub, row, x + at * pitch, 1, highest, 1, width);
      if (!log_) {
        ops_.unary(expr::Id::Exp, 0, 0, row, row, width);
        ops_.binary(expr::Id::Add, sum, sum, 1, row, 1, width);
        continue;
      }
      float power[tile];
      ops_.unary(expr::Id::Exp, 0, 0, power, row, width);
      ops_.binary(expr::Id::Add, sum, sum, 1, power, 1, width);
    }
    ops_.unary(log_ ? expr::Id::Log : expr::Id::Reciprocal, 0, 0, sum, sum, width);
    for (int64_t at = 0; at < count_; ++at)
      ops_.binary(log_ ? expr::Id::Sub : expr::Id::Mul, y + at * pitch, y + at * pitch, 1, sum, 1, width);
  }

  /// Whether they fill vectors and stay in L1.
  bool is_small() const { return !log_ && inner_ >= 16 && count_ * inner_ <= few_elements; }

  /// Joins `rows` rows of partial results to one, and repeats it in the place of all.
  template <class Join>
  void join(float* row, int64_t rows, const Join& two) const {
    for (int64_t left = rows; left > 1; left = (left + 1) / 2)
      two(row, row + (left + 1) / 2 * inner_, left / 2 * inner_);
    for (int64_t at = 1; at < rows; ++at) std::copy_n(row, inner_, row + at * inner_);
  }
  /// Few lines side by side: as many of their rows as a tile holds are done together.
  void narrow(const float* x, float* y) const {
    const int64_t rows = std::min(tile / inner_, count_), width = rows * inner_, all = count_ * inner_;
    float highest[tile], sum[tile], power[tile];
    std::copy_n(x, width, highest);
    for (int64_t at = width; at < all; at += width)
      loops_.fold_into(Fold::max, Before::none, highest, x + at, std::min(width, all - at));
    join(highest, rows, [&](float* to, const float* from, int64_t count) {
      loops_.fold_into(Fold::max, Before::none, to, from, count);
    });
    const auto add = [&](float* to, const float* from, int64_t count) {
      ops_.binary(expr::Id::Add, to, to, 1, from, 1, count);
    };
    std::fill_n(sum, width, 0.f);
    for (int64_t at = 0; at < all; at += width) {
      const int64_t size = std::min(width, all - at);
      float* const exponentials = log_ ? power : y + at;
      ops_.binary(expr::Id::Sub, y + at, x + at, 1, highest, 1, size);
      ops_.unary(expr::Id::Exp, 0, 0, exponentials, y + at, size);
      add(sum, exponentials, size);
    }
    join(sum, rows, add);
    ops_.unary(log_ ? expr::Id::Log : expr::Id::Reciprocal, 0, 0, sum, sum, width);
    for (int64_t at = 0; at < all; at += width)
      ops_.binary(log_ ? expr::Id::Sub : expr::Id::Mul, y + at, y + at, 1, sum, 1, std::min(width, all - at));
  }

  bool log_;
  int64_t outer_, count_, inner_;  // lines lie around the axis as in ops::Around
  const RowOps& ops_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  return problem.inputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<AxisStep>(problem); }

const backends::KernelRegistrar softmax({"Softmax", "lines", 2, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar log_softmax({"LogSoftmax", "lines", 0, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::softmax_axis
