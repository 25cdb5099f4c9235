// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/pool_window.h"

namespace tenon::cpu::pool_int8 {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_taps = 64;  // along an axis

/// The largest bytes of windows over channels-last tensors: of a window's rows first, for a whole row of the image at
/// once, and then of what of that row each window holds.
class BytePoolStep : public backends::Step {
 public:
  explicit BytePoolStep(const Problem& problem)
      : window_(problem),
        x_(problem.inputs[0].dims),
        xs_(problem.inputs[0].strides),
        y_(problem.outputs[0].dims),
        ys_(problem.outputs[0].strides),
        pitch_(xs_[2] <= 2 * x_[3] ? xs_[2] : x_[3]),
        row_bytes_((x_[2] - 1) * pitch_ + x_[3]),
        worker_bytes_(set_apart(static_cast<size_t>(row_bytes_))),
        threads_(problem.threads),
        loops_(loops(active_isa())) {}
  size_t workspace_bytes() const override { return worker_bytes_ * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const uint8_t*>(inputs[0]);
    auto* y = reinterpret_cast<uint8_t*>(outputs[0]);
    auto* row = reinterpret_cast<uint8_t*>(worker.workspace) + worker_bytes_ * static_cast<size_t>(worker.id);
    int64_t begin, end;
    worker.share(y_[0] * y_[1], begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t image = at / y_[1], line = at % y_[1];
      const uint8_t* const from = x + image * xs_[0];
      // Pixels are done together with what lies between them, where that is little.
      if (pitch_ == xs_[2]) largest(row, row_bytes_, from, xs_[1], 0, line, x_[1]);
      else
        for (int64_t column = 0; column < x_[2]; ++column)
          largest(row + column * pitch_, x_[3], from + column * xs_[2], xs_[1], 0, line, x_[1]);
      for (int64_t column = 0; column < y_[2]; ++column)
        largest(y + image * ys_[0] + line * ys_[1] + column * ys_[2], y_[3], row, pitch_, 1, column, x_[2]);
    }
  }

 private:
  /// Of the taps along an axis, `pitch` apart, that lie within `size`.
  void largest(uint8_t* to, int64_t bytes, const uint8_t* from, int64_t pitch, size_t axis, int64_t place,
               int64_t size) const {
    std::array<const uint8_t*, most_taps> taps;
    int64_t found = 0, at = place * window_.strides[axis] - window_.pads[axis];
    for (int64_t tap = 0; tap < window_.kernel[axis]; ++tap, at += window_.dilations[axis])
      if (at >= 0 && at < size) taps[static_cast<size_t>(found++)] = from + at * pitch;
    loops_.largest_bytes(to, taps.data(), found, bytes);
  }

  const PoolWindow window_;
  const Dims x_, xs_, y_, ys_;
  const int64_t pitch_, row_bytes_;  // of a row of the image whose largest bytes are kept
  const size_t worker_bytes_;
  const int threads_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::u8) return {Reason::element_type, "elements", "u8"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (problem.outputs.size() > 1 && problem.outputs[1]) return {Reason::wanted, "indices"};
  if (!x.rows_contiguous() || !y.rows_contiguous()) return {Reason::not_contiguous, "channels"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  for (const int64_t taps : PoolWindow(problem).kernel)
    if (taps > most_taps) return {Reason::too_many, most_taps, "taps"};
  return {};
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<BytePoolStep>(problem); }

const backends::KernelRegistrar registered({"MaxPool", "bytes", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::pool_int8
