// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/int8/conv_int8.h"

namespace tenon::cpu::integer_sums {
namespace {

using namespace std::string_view_literals;
using backends::Operand;
using backends::Problem;
using backends::Reason;

enum : size_t { x_at, w_at, x_zero_at, w_zero_at };

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }
bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }
bool channels_last(const Problem& problem) { return problem.node->text("layout", "") == "NHWC"; }

int32_t byte_at(const Operand& operand, const std::byte* data, int64_t at) {
  return operand.dtype == DType::u8 ? reinterpret_cast<const uint8_t*>(data)[at]
                                    : reinterpret_cast<const int8_t*>(data)[at];
}

/// What an Int8Conv points into.
struct Lists {
  std::vector<float> ones;
  std::vector<int16_t> weights;
};

/// Weights as [rows][inner], less their zero points: one, or one for each row. `transposed`: they lie as [inner][rows].
void take_weights(const Problem& problem, int64_t rows, int64_t inner, bool transposed, Lists& lists) {
  const Operand& w = problem.inputs[w_at];
  const auto* data = w.constant.data<std::byte>();
  lists.ones.assign(static_cast<size_t>(rows), 1);
  for (int64_t row = 0; row < rows; ++row) {
    int32_t zero = 0;
    if (has(problem, w_zero_at)) {
      const Operand& zeros = problem.inputs[w_zero_at];
      zero = byte_at(zeros, zeros.constant.data<std::byte>(), zeros.constant.elements() == 1 ? 0 : row);
    }
    for (int64_t at = 0; at < inner; ++at)
      lists.weights.push_back(
          static_cast<int16_t>(byte_at(w, data, transposed ? at * rows + row : row * inner + at) - zero));
  }
}

Reason refuses_operands(const Problem& problem, int64_t rows) {
  const Operand &x = problem.inputs[x_at], &w = problem.inputs[w_at];
  if (!is_byte(x.dtype) || !is_byte(w.dtype)) return {Reason::element_type, "elements", "u8 or i8"};
  if (!w.constant) return {Reason::not_constant, "the weights"};
  if (has(problem, x_zero_at) && problem.inputs[x_zero_at].dims.elements() != 1)
    return {Reason::shape, "the input", "one zero point"};
  if (has(problem, w_zero_at)) {
    const Tensor& zeros = problem.inputs[w_zero_at].constant;
    if (!zeros || (zeros.elements() != 1 && zeros.elements() != rows))
      return {Reason::shape, "the weights", "one zero point, or one for each row"};
  }
  return x.dense() && problem.outputs[0].dense() ? Reason() : Reason(Reason::view, "an operand");
}

/// Sizes as the kernels take them: bytes and sums that lie densely, channels last.
void lay_out(ConvShape& s) {
  s.in_nchw = false;
  s.in_pixel = s.in_c, s.in_row = s.in_w * s.in_c, s.in_image = s.in_h * s.in_row;
  s.out_pixel = s.out_c, s.out_row = s.out_w * s.out_c, s.out_image = s.out_h * s.out_row;
}

Reason conv_of(const Problem& problem, ConvShape& s) {
  const Operand &x = problem.inputs[x_at], &w = problem.inputs[w_at], &y = problem.outputs[0];
  if (x.dims.rank() != 4 || w.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  if (const Reason reason = refuses_operands(problem, w.dims[0])) return reason;
  const ir::Node& node = *problem.node;
  if (node.text("auto_pad", "NOTSET") != "NOTSET") return {Reason::padding, "given in numbers"};
  const size_t h = channels_last(problem) ? 1 : 2, c = channels_last(problem) ? 3 : 1;
  s.batch = x.dims[0], s.in_h = x.dims[h], s.in_w = x.dims[h + 1], s.in_c = x.dims[c];
  s.out_h = y.dims[h], s.out_w = y.dims[h + 1], s.out_c = y.dims[c];
  const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1}),
             pads = node.integers("pads", {0, 0, 0, 0});
  if (pads[0] < 0 || pads[1] < 0) return {Reason::padding, "0 or more"};
  s.kernel_h = static_cast<int>(w.dims[2]), s.kernel_w = static_cast<int>(w.dims[3]);
  s.stride_h = static_cast<int>(strides[0]), s.stride_w = static_cast<int>(strides[1]);
  s.dilation_h = static_cast<int>(dilations[0]), s.dilation_w = static_cast<int>(dilations[1]);
  s.pad_top = static_cast<int>(pads[0]), s.pad_left = static_cast<int>(pads[1]);
  s.groups = static_cast<int>(node.integer("group", 1));
  lay_out(s);
  return {};
}

/// Rows by a matrix as a convolution of 1x1 over one row of pixels.
Reason product_of(const Problem& problem, ConvShape& s) {
  const Operand &x = problem.inputs[x_at], &w = problem.inputs[w_at];
  if (x.dims.rank() < 2 || w.dims.rank() != 2) return {Reason::shape, "the right operand", "two axes"};
  if (const Reason reason = refuses_operands(problem, w.dims[1])) return reason;
  s.batch = s.in_h = s.out_h = s.kernel_h = s.kernel_w = s.stride_h = s.stride_w = s.dilation_h = s.dilation_w =
      s.groups = 1;
  s.in_c = w.dims[0], s.out_c = w.dims[1];
  s.in_w = s.out_w = s.in_c ? x.dims.elements() / s.in_c : 0;
  lay_out(s);
  return {};
}

/// Exact sums of bytes times constant weights; the input's zero point is known only when it runs.
class IntegerSumsStep : public backends::Step {
 public:
  IntegerSumsStep(const Problem& problem, const ConvShape& shape, bool transposed, bool planes)
      : shape_(shape), is_signed_(problem.inputs[x_at].dtype == DType::i8), planes_(planes) {
    Lists lists;
    take_weights(problem, shape.out_c, shape.in_c / shape.groups * shape.kernel_h * shape.kernel_w, transposed, lists);
    Int8Conv conv{};
    conv.shape = shape;
    conv.weights = lists.weights.data();
    conv.multiplier = lists.ones.data();
    conv.sums = true;
    const bool tiles = active_isa() == Isa::amx;
    for (const char* name : {"int8_int16", "int8_tiles", "int8_depthwise"})  // the last that takes it
      for (const Int8Tactic& tactic : int8_tactics())
        if (tactic.name == std::string_view(name) && (tiles || tactic.name != "int8_tiles"sv) && !tactic.refuses(conv))
          kernel_ = tactic.make(conv, active_isa(), problem.threads);
    has_zero_ = has(problem, x_zero_at);
    bytes_at_ = (kernel_->workspace_bytes() + 63) / 64 * 64;
    const int64_t in = shape.batch * shape.in_image, out = shape.batch * shape.out_image;
    sums_at_ = bytes_at_ + static_cast<size_t>(planes || is_signed_ ? in + 63 : 0) / 64 * 64;
    workspace_ = sums_at_ + static_cast<size_t>(planes ? out : 0) * sizeof(int32_t);
  }
  size_t workspace_bytes() const override { return workspace_; }
  size_t packed_bytes() const override { return kernel_->packed_bytes(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const uint8_t*>(inputs[x_at]);
    auto* const y = reinterpret_cast<int32_t*>(outputs[0]);
    int32_t zero = is_signed_ ? 128 : 0;
    if (has_zero_)
      zero = is_signed_ ? *reinterpret_cast<const int8_t*>(inputs[x_zero_at]) + 128
                        : *reinterpret_cast<const uint8_t*>(inputs[x_zero_at]);
    if (planes_ || is_signed_) {
      auto* const bytes = reinterpret_cast<uint8_t*>(worker.workspace + bytes_at_);
      take_bytes(x, bytes, worker);
      worker.sync();
      x = bytes;
    }
    if (!planes_) {
      kernel_->run(x, zero, nullptr, y, worker);
      return;
    }
    auto* const sums = reinterpret_cast<int32_t*>(worker.workspace + sums_at_);
    kernel_->run(x, zero, nullptr, sums, worker);
    worker.sync();
    int64_t begin, end;
    worker.share(shape_.batch * shape_.out_c, begin, end);
    const int64_t plane = shape_.out_h * shape_.out_w;
    for (int64_t at = begin; at < end; ++at) {
      const int32_t* const from = sums + at / shape_.out_c * shape_.out_image + at % shape_.out_c;
      for (int64_t pixel = 0; pixel < plane; ++pixel) y[at * plane + pixel] = from[pixel * shape_.out_c];
    }
  }

 private:
  /// This worker's rows of the input, unsigned, with channels last.
  void take_bytes(const uint8_t* x, uint8_t* to, const Worker& worker) const {
    const uint8_t flip = is_signed_ ? 0x80 : 0;
    const int64_t plane = shape_.in_h * shape_.in_w, channels = shape_.in_c;
    int64_t begin, end;
    worker.share(shape_.batch * shape_.in_h, begin, end);
    if (!planes_) {
      for (int64_t at = begin * shape_.in_row; at < end * shape_.in_row; ++at) to[at] = x[at] ^ flip;
      return;
    }
    for (int64_t row = begin; row < end; ++row)
      for (int64_t c = 0; c < channels; ++c) {
        const uint8_t* from = x + (row / shape_.in_h * channels + c) * plane + row % shape_.in_h * shape_.in_w;
        uint8_t* const pixels = to + row * shape_.in_row + c;
        for (int64_t at = 0; at < shape_.in_w; ++at) pixels[at * channels] = from[at] ^ flip;
      }
  }

  ConvShape shape_;
  bool is_signed_, planes_, has_zero_ = false;
  std::unique_ptr<Int8Kernel> kernel_;
  size_t bytes_at_ = 0, sums_at_ = 0, workspace_ = 0;
};

template <Reason (*shape_of)(const Problem&, ConvShape&)>
Reason refuses(const Problem& problem) {
  ConvShape shape{};
  return shape_of(problem, shape);
}

template <Reason (*shape_of)(const Problem&, ConvShape&)>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  ConvShape shape{};
  shape_of(problem, shape);
  return std::make_unique<IntegerSumsStep>(problem, shape, shape_of == product_of,
                                           shape_of == conv_of && !channels_last(problem));
}

const backends::KernelRegistrar conv({"ConvInteger", "integer_sums", 1, refuses<conv_of>, make<conv_of>,
                                      "int8_direct int8_tiles int8_depthwise"});
const backends::KernelRegistrar product({"MatMulInteger", "integer_sums", 1, refuses<product_of>, make<product_of>,
                                         "int8_direct int8_tiles int8_depthwise"});

}  // namespace
}  // namespace tenon::cpu::integer_sums
