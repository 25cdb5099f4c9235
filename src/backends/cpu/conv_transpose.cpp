// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/row_epilogue.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/packing.h"

namespace tenon::cpu::conv_transpose {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

struct Geometry {
  int64_t kernel[2], stride[2], dilation[2], begin[2];
};

Geometry geometry_of(const Problem& problem) {
  const ir::Node& node = *problem.node;
  const Dims &x = problem.inputs[0].dims, &w = problem.inputs[1].dims, &y = problem.outputs[0].dims;
  const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1}),
             pads = node.integers("pads", {0, 0, 0, 0});
  const auto extra = node.integers("output_padding", {0, 0});
  const std::string mode = node.text("auto_pad", "NOTSET");
  const bool derived = node.has("output_shape") || mode.rfind("SAME", 0) == 0;
  Geometry g{};
  for (size_t axis = 0; axis < 2; ++axis) {
    g.kernel[axis] = w[axis + 2], g.stride[axis] = strides[axis], g.dilation[axis] = dilations[axis];
    g.begin[axis] = mode == "VALID" ? 0 : pads[axis];
    if (!derived) continue;
    const int64_t full = (x[axis + 1] - 1) * g.stride[axis] + extra[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    const int64_t total = std::max<int64_t>(0, full - y[axis + 1]);
    g.begin[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
  return g;
}

const ConvTactic* product_tactic(const Problem& problem) {
  for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
    if (!std::strcmp(tactic.name, "direct")) return &tactic;
  return nullptr;
}

/// A row of the input times the weights of one kernel row: pixels x C to pixels x (kernel columns x M).
ConvShape row_product(const Problem& problem, int64_t out_pixel) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1];
  ConvShape shape{};
  shape.batch = shape.in_h = shape.out_h = 1;
  shape.in_w = shape.out_w = x.dims[2];
  shape.in_c = x.dims[3];
  shape.out_c = w.dims[1] * w.dims[3];
  shape.kernel_h = shape.kernel_w = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w =
      shape.groups = 1;
  shape.in_pixel = x.strides[2];
  shape.in_row = shape.in_image = x.dims[2] * x.strides[2];
  shape.out_pixel = out_pixel;
  shape.out_row = shape.out_image = x.dims[2] * out_pixel;
  return shape;
}

/// Each output row gathers the kernel rows that reach it; for each, one product gives all its columns, which are added
/// where they belong. Where the columns tile the output row without overlap, the product is the row.
class RowsStep : public backends::Step {
  static constexpr int64_t own_order = 1;  // of packed weights: those of a kernel row

 public:
  explicit RowsStep(const Problem& problem)
      : g_(geometry_of(problem)),
        x_(problem.inputs[0].dims),
        xs_(problem.inputs[0].strides),
        y_(problem.outputs[0].dims),
        ys_(problem.outputs[0].strides),
        threads_(problem.threads),
        epilogue_(*problem.node),
        ops_(row_ops(isa_for(problem))) {
    const int64_t channels = x_[3], out = y_[3], columns = g_.kernel[1];
    bias_.assign(static_cast<size_t>(out), 0.f);
    if (problem.inputs.size() > 2 && problem.inputs[2])
      std::copy_n(problem.inputs[2].constant.data<float>(), out, bias_.begin());
    tiles_ = g_.kernel[0] <= g_.stride[0] && columns == g_.stride[1] && g_.dilation[1] == 1 && g_.dilation[0] == 1 &&
             g_.begin[1] == 0 && y_[2] == x_[2] * columns && ys_[2] == out && !epilogue_.adds();
    const ConvShape shape = row_product(problem, columns * out);
    const ConvTactic& tactic = *product_tactic(problem);
    const float* w = problem.inputs[1].constant.data<float>();
    // As wide as the product.
    const std::vector<float> wide_bias = repeated(bias_.data(), out, tiles_ ? columns : 0);
    Epilogue epilogue = tiles_ ? epilogue_.epilogue() : Epilogue{};
    const std::vector<float> wide_slopes = repeated(epilogue.slopes, out, columns);
    if (epilogue.slopes) epilogue.slopes = wide_slopes.data();
    for (int64_t row = 0; row < g_.kernel[0]; ++row) {
      packed_.push_back(packed_from(w + row * columns, own_order, problem, tactic, shape, [&] {
        Tensor turned(DType::f32, {columns * out, channels});
        for (int64_t k = 0; k < columns; ++k)
          for (int64_t o = 0; o < out; ++o)
            for (int64_t c = 0; c < channels; ++c)
              turned.data<float>()[(k * out + o) * channels + c] =
                  w[((c * out + o) * g_.kernel[0] + row) * columns + k];
        return turned;
      }));
      kernels_.push_back(
          tactic.make(shape, epilogue, floats_of(*packed_.back()), tiles_ ? wide_bias.data() : nullptr, 1));
    }
    product_ = (static_cast<size_t>(tiles_ ? 0 : x_[2] * columns * out) * sizeof(float) + 63) / 64 * 64;
    own_ = set_apart(product_ + kernels_[0]->workspace_bytes());
  }
  size_t workspace_bytes() const override { return own_ * static_cast<size_t>(threads_); }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const Packed& packed : packed_) bytes += packed->size();
    return bytes;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    std::byte* memory = worker.workspace + own_ * static_cast<size_t>(worker.id);
    const Worker alone{0, 1, nullptr, nullptr, memory + product_};
    int64_t begin, end;
    worker.share(y_[0] * y_[1], begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / y_[1], row = unit % y_[1];
      float* to = y + n * ys_[0] + row * ys_[1];
      bool any = false;
      if (!tiles_) fill(to);
      for (int64_t k = 0; k < g_.kernel[0]; ++k) {
        const int64_t scaled = row + g_.begin[0] - k * g_.dilation[0];
        if (scaled < 0 || scaled % g_.stride[0] || scaled / g_.stride[0] >= x_[1]) continue;
        const float* from = x + n * xs_[0] + scaled / g_.stride[0] * xs_[1];
        any = true;
        if (tiles_) {
          kernels_[static_cast<size_t>(k)]->run(from, nullptr, to, alone);
          break;
        }
        kernels_[static_cast<size_t>(k)]->run(from, nullptr, reinterpret_cast<float*>(memory), alone);
        add(reinterpret_cast<const float*>(memory), to);
      }
      if (tiles_ && !any) fill(to);
      if (!tiles_ || !any)
        finish(to, epilogue_.adds() ? reinterpret_cast<const float*>(inputs[3]) + unit * y_[2] * y_[3] : nullptr);
    }
  }

 private:
  void fill(float* row) const {
    for (int64_t at = 0; at < y_[2]; ++at) std::copy(bias_.begin(), bias_.end(), row + at * ys_[2]);
  }
  void add(const float* product, float* row) const {
    for (int64_t at = 0; at < x_[2]; ++at)
      for (int64_t k = 0; k < g_.kernel[1]; ++k) {
        const int64_t column = at * g_.stride[1] - g_.begin[1] + k * g_.dilation[1];
        if (column < 0 || column >= y_[2]) continue;
        float* to = row + column * ys_[2];
        ops_.binary(expr::Id::Add, to, to, 1, product + (at * g_.kernel[1] + k) * y_[3], 1, y_[3]);
      }
  }
  void finish(float* row, const float* residual) const {
    for (int64_t at = 0; at < y_[2]; ++at)
      epilogue_.channels(ops_, row + at * ys_[2], residual ? residual + at * y_[3] : nullptr, 0, y_[3]);
  }

  Geometry g_;
  Dims x_, xs_, y_, ys_;
  int threads_;
  RowEpilogue epilogue_;
  const RowOps& ops_;
  std::vector<float> bias_;
  bool tiles_ = false;
  std::vector<Packed> packed_;
  std::vector<std::unique_ptr<ConvKernel>> kernels_;
  size_t product_ = 0, own_ = 0;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() != 4 || problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (problem.node->integer("group", 1) != 1) return Reason::grouped;
  if (!w.constant || (problem.inputs.size() > 2 && problem.inputs[2] && !problem.inputs[2].constant))
    return {Reason::not_constant, "the weights"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0 || w.dims.elements() == 0) return Reason::empty;
  if (!x.rows_contiguous() || !y.rows_contiguous()) return {Reason::not_contiguous, "channels"};
  if (problem.inputs.size() > 3 && problem.inputs[3] && !problem.inputs[3].dense())
    return {Reason::view, "the residual"};
  const ConvTactic* tactic = product_tactic(problem);
  return tactic ? tactic->refuses(row_product(problem, w.dims[1] * w.dims[3]), {}) : Reason(Reason::instruction_set);
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<RowsStep>(problem); }

const backends::KernelRegistrar registered({"ConvTranspose", "rows", 1, refuses, make, "direct"});

}  // namespace
}  // namespace tenon::cpu::conv_transpose
