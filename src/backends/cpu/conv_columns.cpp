// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "backends/cpu/weights_f32.h"
#include "backends/cpu/row_epilogue.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu::conv_columns {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;
using Three = std::array<int64_t, 3>;

/// Convolution over 1 to 3 spatial axes, channels first, any weights: the inputs under a block of outputs are laid out
/// as columns, and one product with the weights gives the block.
class ColumnsStep : public backends::Step {
 public:
  explicit ColumnsStep(const Problem& problem)
      : epilogue_(*problem.node), threads_(problem.threads), isa_(isa_for(problem)), ops_(row_ops(isa_)) {
    const ir::Node& node = *problem.node;
    const Dims &x = problem.inputs[0].dims, &w = problem.inputs[1].dims, &y = problem.outputs[0].dims;
    const size_t rank = x.rank() - 2, shift = 3 - rank;
    const auto strides = node.integers("strides", std::vector<int64_t>(rank, 1)),
               dilations = node.integers("dilations", std::vector<int64_t>(rank, 1));
    const auto pads = node.integers("pads", std::vector<int64_t>(2 * rank, 0));
    const std::string mode = node.text("auto_pad", "NOTSET");
    for (size_t axis = 0; axis < rank; ++axis) {
      in_[axis + shift] = x[axis + 2], out_[axis + shift] = y[axis + 2], kernel_[axis + shift] = w[axis + 2];
      stride_[axis + shift] = strides[axis], dilation_[axis + shift] = dilations[axis];
      begin_[axis + shift] = mode == "NOTSET" || mode.empty() ? pads[axis] : 0;
      if (mode.rfind("SAME", 0) == 0) {
        const int64_t total = std::max<int64_t>(
            0, (y[axis + 2] - 1) * strides[axis] + (w[axis + 2] - 1) * dilations[axis] + 1 - x[axis + 2]);
        begin_[axis + shift] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      }
    }
    batch_ = x[0], groups_ = node.integer("group", 1), channels_ = w[1], rows_ = w[0] / groups_;
    taps_ = kernel_[0] * kernel_[1] * kernel_[2];
    plane_ = out_[0] * out_[1] * out_[2];
    depth_ = channels_ * taps_;
    // By the shape alone, so that results do not depend on the workers.
    block_ = std::clamp<int64_t>((int64_t{1} << 17) / depth_ / 16 * 16, 16, 512);
    bias_ = problem.inputs.size() > 2 && problem.inputs[2];
    shape_.m = rows_, shape_.k = shape_.lda = depth_, shape_.n = shape_.ldb = std::min(block_, plane_),
    shape_.ldc = plane_;
    columns_ = static_cast<size_t>((depth_ * block_ + 15) / 16 * 16);
    own_ = set_apart((columns_ + gemm_workspace_floats(isa_, shape_)) * sizeof(float)) / sizeof(float);
  }
  size_t workspace_bytes() const override { return own_ * sizeof(float) * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    float* columns = reinterpret_cast<float*>(worker.workspace) + own_ * static_cast<size_t>(worker.id);
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* w = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const int64_t blocks = (plane_ + block_ - 1) / block_, image_size = in_[0] * in_[1] * in_[2];
    int64_t begin, end;
    worker.share(batch_ * groups_ * blocks, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % blocks * block_, image = unit / blocks, group = image % groups_;
      GemmShape part = shape_;
      part.n = part.ldb = std::min(block_, plane_ - first);
      for (int64_t c = 0; c < channels_; ++c)
        lay_out(x + (image * channels_ + c) * image_size, columns + c * taps_ * part.n, first, part.n);
      const int64_t row = image * rows_;
      gemm(isa_, part, w + group * rows_ * depth_, columns, y + row * plane_ + first, nullptr, columns + columns_);
      for (int64_t m = 0; m < rows_; ++m) {
        const int64_t at = (row + m) * plane_ + first;
        finish(y + at, inputs, group * rows_ + m, at, part.n);
      }
    }
  }

 private:
  /// The values of one channel under outputs [first, first + count), a row for each tap.
  void lay_out(const float* x, float* to, int64_t first, int64_t count) const {
    for (int64_t tap = 0; tap < taps_; ++tap, to += count) {
      const Three k{tap / kernel_[2] / kernel_[1], tap / kernel_[2] % kernel_[1], tap % kernel_[2]};
      // Runs along the last axis: the outputs of one line.
      for (int64_t done = 0; done < count;) {
        const int64_t at = first + done, column = at % out_[2], line = at / out_[2];
        const int64_t run = std::min(count - done, out_[2] - column);
        const int64_t d = line / out_[1] * stride_[0] - begin_[0] + k[0] * dilation_[0],
                      h = line % out_[1] * stride_[1] - begin_[1] + k[1] * dilation_[1];
        const int64_t start = column * stride_[2] - begin_[2] + k[2] * dilation_[2];
        float* dst = to + done;
        done += run;
        if (d < 0 || d >= in_[0] || h < 0 || h >= in_[1]) {
          std::fill_n(dst, run, 0.f);
          continue;
        }
        const float* src = x + (d * in_[1] + h) * in_[2];
        const int64_t low = start >= 0 ? 0 : std::min(run, (-start + stride_[2] - 1) / stride_[2]);
        const int64_t high = start >= in_[2] ? low : std::clamp((in_[2] - 1 - start) / stride_[2] + 1, low, run);
        std::fill_n(dst, low, 0.f);
        if (stride_[2] == 1) std::copy_n(src + start + low, high - low, dst + low);
        else
          for (int64_t i = low; i < high; ++i) dst[i] = src[start + i * stride_[2]];
        std::fill_n(dst + high, run - high, 0.f);
      }
    }
  }
  void finish(float* y, std::byte* const* inputs, int64_t channel, int64_t at, int64_t count) const {
    if (bias_) ops_.binary(expr::Id::Add, y, y, 1, reinterpret_cast<const float*>(inputs[2]) + channel, 0, count);
    const float* residual = epilogue_.adds() ? reinterpret_cast<const float*>(inputs[3]) + at : nullptr;
    epilogue_.values(ops_, y, residual, channel, count);
  }

  Three in_{1, 1, 1}, out_{1, 1, 1}, kernel_{1, 1, 1}, stride_{1, 1, 1}, dilation_{1, 1, 1}, begin_{0, 0, 0};
  int64_t batch_, groups_, channels_, rows_, taps_, plane_, depth_, block_;
  bool bias_;
  RowEpilogue epilogue_;
  int threads_;
  Isa isa_;
  const RowOps& ops_;
  GemmShape shape_{};
  size_t columns_, own_;
};

Reason refuses(const Problem& problem) {
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  const Dims& x = problem.inputs[0].dims;
  if (x.rank() < 3 || x.rank() > 5) return {Reason::shape, "the input", "1 to 3 spatial axes"};
  if (problem.node->text("layout", "NCHW") != "NCHW") return {Reason::layout, "NCHW"};
  if (x.elements() == 0 || problem.inputs[1].dims.elements() == 0 || problem.outputs[0].dims.elements() == 0)
    return Reason::empty;
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ColumnsStep>(problem); }

const backends::KernelRegistrar registered({"Conv", "columns", 0, refuses_any<refuses>, make_cast<make_any<make>>,
                                            "direct"});

}  // namespace
}  // namespace tenon::cpu::conv_columns
