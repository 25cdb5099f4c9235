// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/pool_window.h"
#include "backends/kernel.h"
#include "ops/op.h"

namespace tenon::cpu::pool_planes {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Max and average pooling of tensors with channels before rows, a row of a plane at a time: where all taps of a row's
/// pixels lie inside, they are shifted rows, folded element by element.
class PlanesStep : public backends::Step {
 public:
  explicit PlanesStep(const Problem& problem)
      : window_(problem, 2), threads_(problem.threads), ops_(row_ops(isa_for(problem))) {
    const ir::Node& node = *problem.node;
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    x_ = x.dims, xs_ = x.strides, y_ = y.dims, ys_ = y.strides;
    max_ = ops::traits_of(node.op).reduction() == ops::Reduction::largest;
    include_pad_ = node.integer("count_include_pad", 0) != 0;
    const int64_t stride = window_.strides[1], reach = (window_.kernel[1] - 1) * window_.dilations[1];
    first_ = std::min((std::max<int64_t>(0, window_.pads[1]) + stride - 1) / stride, y_[3]);
    beside_ = window_.strides[1] == 1 && window_.kernel[0] > 1 && window_.kernel[1] > 1;
    const int64_t room = x_[3] - 1 + window_.pads[1] - reach;
    last_ = room < 0 ? first_ : std::clamp(room / stride + 1, first_, y_[3]);
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(threads_) * worker_bytes(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    auto* own = reinterpret_cast<float*>(worker.workspace + static_cast<size_t>(worker.id) * worker_bytes());
    int64_t begin = 0, end = 0;
    worker.share(y_[0] * y_[1] * y_[2], begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t row = at % y_[2], channel = at / y_[2] % y_[1], image = at / y_[2] / y_[1];
      pool_row(x + image * xs_[0] + channel * xs_[1], y + image * ys_[0] + channel * ys_[1] + row * ys_[2], row, own);
    }
  }

 private:
  static constexpr int64_t at_once = 32;  // taps

  size_t worker_bytes() const {
    if (window_.strides[1] == 1 && !beside_) return 0;
    const int64_t floats = x_[3] + (window_.strides[1] == 1 ? 0 : std::min(window_.kernel[1], at_once) * y_[3]);
    return static_cast<size_t>(set_apart(floats * static_cast<int64_t>(sizeof(float))));
  }

  /// Calls with each row of the plane that taps of this row of windows lie in, in order.
  template <class Visit>
  void tap_rows(const float* plane, int64_t top, Visit visit) const {
    for (int64_t k = 0; k < window_.kernel[0]; ++k)
      if (const int64_t at = top + k * window_.dilations[0]; at >= 0 && at < x_[2]) visit(plane + at * xs_[2]);
  }
  void add(float& y, float tap, bool is_first) const {
    if (is_first) y = tap;
    else if (!max_) y += tap;
    else if (tap > y || tap != tap) y = tap;
  }
  float share_of(int64_t top, int64_t left, int64_t taps) const {
    if (include_pad_) taps = window_.padded_taps(0, top, x_[2]) * window_.padded_taps(1, left, x_[3]);
    return 1.f / static_cast<float>(taps);
  }

  void pool_row(const float* plane, float* y, int64_t row, float* own) const {
    const int64_t top = row * window_.strides[0] - window_.pads[0];
    int64_t rows = 0;
    tap_rows(plane, top, [&](const float*) { ++rows; });
    if (rows == 0) return (void)std::fill_n(y, y_[3], max_ ? -INFINITY : 0.f);
    if (beside_) return row_of_sums(plane, y, top, rows, own);
    for (int64_t column = 0; column < first_; ++column) pixel(plane, y[column], top, column);
    for (int64_t column = last_; column < y_[3]; ++column) pixel(plane, y[column], top, column);
    if (first_ == last_) return;
    const int64_t left = first_ * window_.strides[1] - window_.pads[1], count = last_ - first_;
    if (window_.strides[1] == 1) fold(plane + left, y + first_, top, count);
    else stride(plane + left, y + first_, top, count, own);
    if (!max_) ops_.scale(y + first_, share_of(top, left, rows * window_.kernel[1]), count);
  }
  /// Columns one beside the other: all of the row's windows are folded row by row first.
  void row_of_sums(const float* plane, float* y, int64_t top, int64_t rows, float* own) const {
    fold_rows(plane, top, x_[3], own);
    for (int64_t column = 0; column < y_[3]; ++column) {
      if (column == first_) column = last_;
      if (column == y_[3]) break;
      const int64_t left = column - window_.pads[1];
      int64_t taps = 0;
      for (int64_t k = 0; k < window_.kernel[1]; ++k)
        if (const int64_t at = left + k * window_.dilations[1]; at >= 0 && at < x_[3])
          add(y[column], own[at], taps++ == 0);
      if (taps == 0) y[column] = max_ ? -INFINITY : 0.f;
      else if (!max_) y[column] *= share_of(top, left, taps * rows);
    }
    if (first_ == last_) return;
    const int64_t left = first_ - window_.pads[1], count = last_ - first_;
    const float* taps[at_once];
    for (int64_t k = 0; k < window_.kernel[1]; k += at_once) {
      const int64_t many = std::min(at_once, window_.kernel[1] - k);
      for (int64_t at = 0; at < many; ++at) taps[at] = own + left + (k + at) * window_.dilations[1];
      ops_.fold(max_, y + first_, taps, many, count, k > 0);
    }
    if (!max_) ops_.scale(y + first_, share_of(top, left, rows * window_.kernel[1]), count);
  }
  /// The first `count` columns of the rows that taps lie in, as one row.
  void fold_rows(const float* from, int64_t top, int64_t count, float* to) const {
    const float* taps[at_once];
    int64_t waiting = 0;
    bool more = false;
    tap_rows(from, top, [&](const float* row) {
      taps[waiting++] = row;
      if (waiting < at_once) return;
      ops_.fold(max_, to, taps, waiting, count, more);
      waiting = 0, more = true;
    });
    if (waiting > 0) ops_.fold(max_, to, taps, waiting, count, more);
  }
  /// Pixels side by side whose taps are so, too.
  void fold(const float* from, float* y, int64_t top, int64_t count) const {
    const float* taps[at_once];
    int64_t waiting = 0;
    bool more = false;
    const auto fold_waiting = [&] {
      ops_.fold(max_, y, taps, waiting, count, more);
      waiting = 0, more = true;
    };
    tap_rows(from, top, [&](const float* row) {
      for (int64_t k = 0; k < window_.kernel[1]; ++k) {
        taps[waiting++] = row + k * window_.dilations[1];
        if (waiting == at_once) fold_waiting();
      }
    });
    if (waiting > 0) fold_waiting();
  }
  /// Pixels side by side whose taps are not: rows are folded first, then columns that were put side by side.
  void stride(const float* from, float* y, int64_t top, int64_t count, float* own) const {
    fold_rows(from, top, (window_.kernel[1] - 1) * window_.dilations[1] + (count - 1) * window_.strides[1] + 1, own);
    const float* taps[at_once];
    int64_t waiting = 0;
    bool more = false;
    for (int64_t k = 0; k < window_.kernel[1]; ++k) {
      float* const beside = own + x_[3] + waiting * y_[3];
      const float* const tap = own + k * window_.dilations[1];
      for (int64_t at = 0; at < count; ++at) beside[at] = tap[at * window_.strides[1]];
      taps[waiting++] = beside;
      if (waiting < at_once) continue;
      ops_.fold(max_, y, taps, waiting, count, more);
      waiting = 0, more = true;
    }
    if (waiting > 0) ops_.fold(max_, y, taps, waiting, count, more);
  }
  /// One whose window is partly outside.
  void pixel(const float* plane, float& y, int64_t top, int64_t column) const {
    const int64_t left = column * window_.strides[1] - window_.pads[1];
    int64_t taps = 0;
    tap_rows(plane, top, [&](const float* row) {
      for (int64_t k = 0; k < window_.kernel[1]; ++k)
        if (const int64_t at = left + k * window_.dilations[1]; at >= 0 && at < x_[3]) add(y, row[at], taps++ == 0);
    });
    if (taps == 0) y = max_ ? -INFINITY : 0.f;
    else if (!max_) y *= share_of(top, left, taps);
  }

  const PoolWindow window_;
  Dims x_, xs_, y_, ys_;
  int64_t first_, last_;  // columns whose taps all lie between a row's ends
  bool max_, include_pad_, beside_;
  int threads_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") == "NHWC") return {Reason::layout, "NCHW"};
  if (problem.outputs.size() > 1 && problem.outputs[1]) return {Reason::wanted, "indices"};
  if (!x.rows_contiguous() || !y.rows_contiguous()) return {Reason::not_contiguous, "rows"};
  return {};
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<PlanesStep>(problem); }

const backends::KernelRegistrar max_pool({"MaxPool", "planes", 1, refuses, make});
const backends::KernelRegistrar average_pool({"AveragePool", "planes", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::pool_planes
