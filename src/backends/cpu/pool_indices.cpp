// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/largest.h"
#include "backends/cpu/pool_window.h"
#include "backends/kernel.h"

namespace tenon::cpu::pool_indices {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_taps = 256;

/// Max pooling of channels-last tensors that says where each largest element lies, as in a tensor of planes.
class PoolIndicesStep : public backends::Step {
 public:
  explicit PoolIndicesStep(const Problem& problem) : window_(problem), ops_(largest_ops(isa_for(problem))) {
    columns_first_ = problem.node->integer("storage_order", 0) != 0;
    fit(problem);
  }
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    for (const Operand* operand : {&problem.inputs[0], &problem.outputs[0], &problem.outputs[1]})
      if (!operand->rows_contiguous()) return nullptr;
    auto other = std::make_unique<PoolIndicesStep>(*this);
    other->window_.fit(problem);
    other->fit(problem);
    return other;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin = 0, end = 0;
    worker.share(y_[0] * y_[1], begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t image = at / y_[1], row = at % y_[1];
      LargestWindows all{};
      all.src = reinterpret_cast<const float*>(inputs[0]) + image * xs_[0];
      all.dst = reinterpret_cast<float*>(outputs[0]) + image * ys_[0] + row * ys_[1];
      all.at = reinterpret_cast<int64_t*>(outputs[1]) + image * is_[0] + row * is_[1];
      all.place = image * x_[3] * plane_;
      for (int64_t column = 0; column < y_[2];) {
        const int64_t next = column == inside_[0] && inside_[1] > column ? inside_[1] : column + 1;
        windows(all, row, column, next);
        column = next;
      }
    }
  }

 private:
  void fit(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    x_ = x.dims, xs_ = x.strides, y_ = y.dims, ys_ = y.strides, is_ = problem.outputs[1].strides;
    plane_ = x_[1] * x_[2];
    row_ = columns_first_ ? 1 : x_[2], column_ = columns_first_ ? x_[1] : 1;
    const int64_t reach = (window_.kernel[1] - 1) * window_.dilations[1], stride = window_.strides[1];
    inside_[0] = std::min(y_[2], (window_.pads[1] + stride - 1) / stride);
    const int64_t last = x_[2] - 1 - reach + window_.pads[1];
    inside_[1] = last < 0 ? inside_[0] : std::clamp(last / stride + 1, inside_[0], y_[2]);
  }

  /// Windows from one column to another that see the same taps.
  void windows(LargestWindows all, int64_t row, int64_t column, int64_t end) const {
    int64_t offsets[most_taps];
    int32_t places[most_taps];
    const int64_t top = row * window_.strides[0] - window_.pads[0],
                  left = column * window_.strides[1] - window_.pads[1];
    for (int64_t ky = 0; ky < window_.kernel[0]; ++ky) {
      const int64_t at_y = top + ky * window_.dilations[0];
      if (at_y < 0 || at_y >= x_[1]) continue;
      for (int64_t kx = 0; kx < window_.kernel[1]; ++kx) {
        const int64_t at_x = left + kx * window_.dilations[1];
        if (at_x < 0 || at_x >= x_[2]) continue;
        offsets[all.taps] = at_y * xs_[1] + at_x * xs_[2];
        places[all.taps++] = static_cast<int32_t>(at_y * row_ + at_x * column_);
      }
    }
    all.dst += column * ys_[2], all.at += column * is_[2];
    if (all.taps == 0) {
      std::fill_n(all.dst, y_[3], std::numeric_limits<float>::lowest());
      std::fill_n(all.at, y_[3], -1);
      return;
    }
    all.offsets = offsets, all.places = places;
    all.src_step = window_.strides[1] * xs_[2], all.dst_step = ys_[2], all.at_step = is_[2];
    all.place_step = window_.strides[1] * column_, all.plane = plane_;
    all.channels = y_[3], all.pixels = end - column;
    ops_.windows(all);
  }

  PoolWindow window_;
  Dims x_, xs_, y_, ys_, is_;
  int64_t plane_ = 0, row_ = 0, column_ = 0;  // elements of a plane, and between neighbours of it as indices count
  int64_t inside_[2] = {};                    // columns of the output whose windows lie inside those of the input
  bool columns_first_;
  const LargestOps& ops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (problem.outputs.size() < 2 || !problem.outputs[1]) return Reason::other_kernel;
  if (!x.rows_contiguous() || !y.rows_contiguous() || !problem.outputs[1].rows_contiguous())
    return {Reason::not_contiguous, "channels"};
  const PoolWindow window(problem);
  if (window.kernel[0] > most_taps || window.kernel[1] > most_taps / window.kernel[0])
    return {Reason::too_many, most_taps, "taps"};
  if (x.dims[1] * x.dims[2] > std::numeric_limits<int32_t>::max()) return Reason::too_large;
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<PoolIndicesStep>(problem); }

const backends::KernelRegistrar registered({"MaxPool", "indices", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::pool_indices
