// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/pool_window.h"
#include "ops/op.h"

namespace tenon::cpu::pool {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Max and average pooling over two spatial axes of channels-last tensors, one output pixel's channels at a time.
class PoolStep : public backends::Step {
 public:
  explicit PoolStep(const Problem& problem) : window_(problem), ops_(row_ops(isa_for(problem))) {
    const ir::Node& node = *problem.node;
    max_ = ops::traits_of(node.op).reduction() == ops::Reduction::largest;
    include_pad_ = node.integer("count_include_pad", 0) != 0;
    fit(problem);
  }

  std::unique_ptr<Step> resized(const Problem& problem) const override {
    if (!problem.inputs[0].rows_contiguous() || !problem.outputs[0].rows_contiguous()) return nullptr;
    auto other = std::make_unique<PoolStep>(*this);
    other->window_.fit(problem);
    other->fit(problem);
    return other;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    // Few pixels and many channels (global pooling) are cut along channels, else along rows.
    const int64_t rows = y_[0] * y_[1];
    int64_t begin = 0, end = rows, first = 0, last = y_[3];
    if (rows >= worker.count) {
      worker.share(rows, begin, end);
    } else {
      worker.share((y_[3] + 15) / 16, first, last);
      first *= 16;
      last = std::min(last * 16, y_[3]);
    }
    if (first >= last) return;
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row / y_[1] * xs_[0] + first;
      float* to = y + row / y_[1] * ys_[0] + row % y_[1] * ys_[1] + first;
      const bool together = inside(from, to, row % y_[1], last - first);
      for (int64_t column = 0; column < y_[2]; ++column) {
        if (together && column == inside_[0]) column = inside_[1];
        if (column < y_[2]) pixel(from, to + column * ys_[2], row % y_[1], column, last - first);
      }
    }
  }

 private:
  static constexpr int64_t at_once = 32;         // taps
  static constexpr int64_t block = 4 * at_once;  // taps that are added up by themselves
  static constexpr int64_t wide = 512;           // channels at once of such sums

  void fit(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    x_ = x.dims, xs_ = x.strides, y_ = y.dims, ys_ = y.strides;
    const int64_t reach = (window_.kernel[1] - 1) * window_.dilations[1], stride = window_.strides[1];
    inside_[0] = std::min(y_[2], (window_.pads[1] + stride - 1) / stride);
    const int64_t last = x_[2] - 1 - reach + window_.pads[1];
    inside_[1] = last < 0 ? inside_[0] : std::clamp(last / stride + 1, inside_[0], y_[2]);
  }

  /// The windows of a row that begin and end inside the image's columns, if there are several of few taps.
  bool inside(const float* x, float* y, int64_t row, int64_t channels) const {
    const int64_t top = row * window_.strides[0] - window_.pads[0], pixels = inside_[1] - inside_[0];
    int64_t offsets[at_once], count = 0;
    if (pixels < 2 || window_.kernel[0] * window_.kernel[1] > at_once) return false;
    for (int64_t ky = 0; ky < window_.kernel[0]; ++ky) {
      const int64_t at_y = top + ky * window_.dilations[0];
      if (at_y < 0 || at_y >= x_[1]) continue;
      for (int64_t kx = 0; kx < window_.kernel[1]; ++kx)
        offsets[count++] = at_y * xs_[1] + kx * window_.dilations[1] * xs_[2];
    }
    if (count == 0) return false;
    const int64_t left = inside_[0] * window_.strides[1] - window_.pads[1];
    const int64_t weight = include_pad_ ? window_.padded_taps(0, top, x_[1]) * window_.kernel[1] : count;
    ops_.windows(max_, 1.f / static_cast<float>(weight), y + inside_[0] * ys_[2], ys_[2], x + left * xs_[2],
                 window_.strides[1] * xs_[2], offsets, count, channels, pixels);
    return true;
  }

  /// Calls with each tap of the window that lies inside the image, in order.
  template <class Visit>
  void taps(const float* x, int64_t top, int64_t left, Visit visit) const {
    for (int64_t ky = 0; ky < window_.kernel[0]; ++ky) {
      const int64_t at_y = top + ky * window_.dilations[0];
      if (at_y < 0 || at_y >= x_[1]) continue;
      for (int64_t kx = 0; kx < window_.kernel[1]; ++kx) {
        const int64_t at_x = left + kx * window_.dilations[1];
        if (at_x >= 0 && at_x < x_[2]) visit(x + at_y * xs_[1] + at_x * xs_[2]);
      }
    }
  }
  void pixel(const float* x, float* y, int64_t row, int64_t column, int64_t channels) const {
    const int64_t top = row * window_.strides[0] - window_.pads[0],
                  left = column * window_.strides[1] - window_.pads[1];
    const bool parts = !max_ && window_.kernel[0] * window_.kernel[1] >= 2 * block;
    int64_t count = 0;
    for (int64_t first = 0, step = parts ? wide : channels; first < channels; first += step) {
      const int64_t size = std::min(step, channels - first);
      count = parts ? sum_blocks(x + first, y + first, top, left, size) : fold_taps(x, y, top, left, size);
    }
    if (count == 0) std::fill(y, y + channels, max_ ? -INFINITY : 0.f);
    if (max_ || count == 0) return;
    if (include_pad_) count = window_.padded_taps(0, top, x_[1]) * window_.padded_taps(1, left, x_[2]);
    ops_.scale(y, 1.f / static_cast<float>(count), channels);
  }
  /// The largest tap or the sum; returns how many there are.
  int64_t fold_taps(const float* x, float* y, int64_t top, int64_t left, int64_t channels) const {
    const float* rows[at_once];
    int64_t count = 0, waiting = 0;
    const auto fold = [&] {
      ops_.fold(max_, y, rows, waiting, channels, count > waiting);
      waiting = 0;
    };
    taps(x, top, left, [&](const float* tap) {
      rows[waiting++] = tap, ++count;
      if (waiting == at_once) fold();
    });
    if (waiting > 0) fold();
    return count;
  }
  /// The same for a sum of many taps, as a sum of sums: rounding errors grow with the number of terms in a row.
  int64_t sum_blocks(const float* x, float* y, int64_t top, int64_t left, int64_t channels) const {
    const float* rows[at_once];
    float part[wide];
    const float* const parts[] = {part};
    int64_t count = 0, waiting = 0, in_block = 0;
    std::fill(y, y + channels, 0.f);
    const auto fold = [&](bool last) {
      if (waiting > 0) ops_.fold(false, part, rows, waiting, channels, in_block > 0);
      in_block += waiting, waiting = 0;
      if (in_block < block && !(last && in_block > 0)) return;
      ops_.fold(false, y, parts, 1, channels, true);
      in_block = 0;
    };
    taps(x, top, left, [&](const float* tap) {
      rows[waiting++] = tap, ++count;
      if (waiting == at_once) fold(false);
    });
    fold(true);
    return count;
  }

  PoolWindow window_;
  Dims x_, xs_, y_, ys_;
  int64_t inside_[2];  // columns of the output whose windows lie inside those of the input
  bool max_, include_pad_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (problem.outputs.size() > 1 && problem.outputs[1]) return {Reason::wanted, "indices"};
  if (!x.rows_contiguous() || !y.rows_contiguous()) return {Reason::not_contiguous, "channels"};
  return {};
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<PoolStep>(problem); }

const backends::KernelRegistrar max_pool({"MaxPool", "rows", 1, refuses, make});
const backends::KernelRegistrar average_pool({"AveragePool", "rows", 1, refuses, make});
const backends::KernelRegistrar global_max({"GlobalMaxPool", "rows", 1, refuses, make});
const backends::KernelRegistrar global_average({"GlobalAveragePool", "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::pool
