#include <algorithm>
#include <array>
#include <cmath>

#include "backends/backend.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/loops.h"
#include "backends/cpu/kernels/rows.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;

/// Max and average pooling over two spatial axes of channels-last tensors, one output pixel's channels at a time.
class PoolStep : public backends::Step {
 public:
  explicit PoolStep(const Problem& problem) : ops_(row_ops(active_isa())), loops_(loops(active_isa())) {
    const ir::Node& node = *problem.node;
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    x_ = x.dims, xs_ = x.strides, y_ = y.dims, ys_ = y.strides;
    max_ = node.op == "MaxPool" || node.op == "GlobalMaxPool";
    kernel_ = node.op.rfind("Global", 0) == 0 ? std::vector<int64_t>{x_[1], x_[2]} : node.integers("kernel_shape");
    strides_ = node.integers("strides", {1, 1});
    dilations_ = node.integers("dilations", {1, 1});
    pads_ = node.integers("pads", {0, 0, 0, 0});
    if (const std::string mode = node.text("auto_pad", "NOTSET"); mode != "NOTSET" && mode != "VALID")
      for (size_t axis : {size_t{0}, size_t{1}}) {
        const int64_t total = std::max<int64_t>(
            0, (y_[axis + 1] - 1) * strides_[axis] + (kernel_[axis] - 1) * dilations_[axis] + 1 - x_[axis + 1]);
        pads_[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
        pads_[axis + 2] = total - pads_[axis];
      }
    include_pad_ = node.integer("count_include_pad", 0) != 0;
    bytes_ = problem.inputs[0].dtype == DType::u8;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    if (bytes_) run_on(reinterpret_cast<const uint8_t*>(inputs[0]), reinterpret_cast<uint8_t*>(outputs[0]), worker);
    else run_on(reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<float*>(outputs[0]), worker);
  }

 private:
  template <class T>
  void run_on(const T* x, T* y, const Worker& worker) const {
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
    for (int64_t row = begin; row < end; ++row)
      for (int64_t column = 0; column < y_[2]; ++column)
        pixel(x + row / y_[1] * xs_[0] + first,
              y + row / y_[1] * ys_[0] + row % y_[1] * ys_[1] + column * ys_[2] + first, row % y_[1], column,
              last - first);
  }

  /// Calls with each tap of the window that lies inside the picture, in order.
  template <class T, class Visit>
  void taps(const T* x, int64_t top, int64_t left, Visit visit) const {
    for (int64_t ky = 0; ky < kernel_[0]; ++ky) {
      const int64_t at_y = top + ky * dilations_[0];
      if (at_y < 0 || at_y >= x_[1]) continue;
      for (int64_t kx = 0; kx < kernel_[1]; ++kx) {
        const int64_t at_x = left + kx * dilations_[1];
        if (at_x >= 0 && at_x < x_[2]) visit(x + at_y * xs_[1] + at_x * xs_[2]);
      }
    }
  }
  void pixel(const uint8_t* x, uint8_t* y, int64_t row, int64_t column, int64_t channels) const {
    constexpr size_t together = 64;
    std::array<const uint8_t*, together> sources;
    std::array<uint8_t, 256> before;
    // Long windows are gone through in parts, whose largest bytes so far are one source of the next.
    for (int64_t first = 0; first < channels; first += static_cast<int64_t>(before.size())) {
      const int64_t count = std::min(static_cast<int64_t>(before.size()), channels - first);
      size_t found = 0;
      taps(x, row * strides_[0] - pads_[0], column * strides_[1] - pads_[1], [&](const uint8_t* tap) {
        if (found == together) {
          loops_.largest_bytes(y + first, sources.data(), together, count);
          std::copy_n(y + first, count, before.data());
          sources[0] = before.data();
          found = 1;
        }
        sources[found++] = tap + first;
      });
      loops_.largest_bytes(y + first, sources.data(), static_cast<int64_t>(found), count);
    }
  }
  void pixel(const float* x, float* y, int64_t row, int64_t column, int64_t channels) const {
    const int64_t top = row * strides_[0] - pads_[0], left = column * strides_[1] - pads_[1];
    int64_t count = 0;
    taps(x, top, left, [&](const float* tap) {
      if (count++ == 0) ops_.unary(Unary::copy, {}, y, tap, channels);
      else ops_.binary(max_ ? Binary::max : Binary::add, y, y, 1, tap, 1, channels);
    });
    if (count == 0) std::fill(y, y + channels, max_ ? -INFINITY : 0.f);
    if (max_ || count == 0) return;
    if (include_pad_) count = padded(top, 0) * padded(left, 1);
    ops_.scale(y, 1.f / static_cast<float>(count), channels);
  }
  /// Taps of a window that lie inside the padded picture.
  int64_t padded(int64_t begin, size_t axis) const {
    int64_t count = 0;
    for (int64_t k = 0; k < kernel_[axis]; ++k) {
      const int64_t at = begin + k * dilations_[axis];
      count += at >= -pads_[axis] && at < x_[axis + 1] + pads_[axis + 2];
    }
    return count;
  }

  Dims x_, xs_, y_, ys_;
  std::vector<int64_t> kernel_, strides_, dilations_, pads_;
  bool max_, include_pad_, bytes_;
  const RowOps& ops_;
  const Loops& loops_;
};

const char* refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool bytes = x.dtype == DType::u8 && problem.node->op == "MaxPool";
  if (x.dtype != DType::f32 && !bytes) return "only f32, and u8 for MaxPool";
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return "only channels-last";
  if (problem.outputs.size() > 1 && problem.outputs[1]) return "indices are wanted";
  if (!x.rows_contiguous() || !y.rows_contiguous()) return "channels are not contiguous";
  return nullptr;
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<PoolStep>(problem); }

const backends::KernelRegistrar max_pool({"MaxPool", "rows", 1, refuses, make});
const backends::KernelRegistrar average_pool({"AveragePool", "rows", 1, refuses, make});
const backends::KernelRegistrar global_max({"GlobalMaxPool", "rows", 1, refuses, make});
const backends::KernelRegistrar global_average({"GlobalAveragePool", "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu
