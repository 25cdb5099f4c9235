// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/blocks.h"
#include "ops/op.h"

namespace tenon::cuda {
namespace {

constexpr int most_channels = 1024;

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

ConvShape shape_of(const Problem& problem) {
  ConvShape shape{};
  conv_shape(problem, shape);
  return shape;
}

}  // namespace

BlockShape::BlockShape(const ConvShape& of) : shape(of) {
  block = shape.stride_h;
  channels = ceil_div(shape.in_c * block * block, 16) * 16;
  height = ceil_div(shape.in_h, block), width = ceil_div(shape.in_w, block);
  pad_top = -floor_div(-shape.pad_top, block), pad_left = -floor_div(-shape.pad_left, block);
  taps_h = floor_div(shape.kernel_h - 1 - shape.pad_top, block) + pad_top + 1;
  taps_w = floor_div(shape.kernel_w - 1 - shape.pad_left, block) + pad_left + 1;
}

std::vector<BlockShape::Place> BlockShape::places() const {
  std::vector<Place> list;
  list.reserve(static_cast<size_t>(shape.out_c * shape.depth()));
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t i = 0; i < shape.kernel_h; ++i)
      for (int64_t j = 0; j < shape.kernel_w; ++j) {
        const int64_t tap_h = floor_div(i - shape.pad_top, block) + pad_top,
                      row = i - shape.pad_top - (tap_h - pad_top) * block;
        const int64_t tap_w = floor_div(j - shape.pad_left, block) + pad_left,
                      column = j - shape.pad_left - (tap_w - pad_left) * block;
        for (int64_t c = 0; c < shape.in_c; ++c)
          list.push_back({n, tap_h, tap_w, (row * block + column) * shape.in_c + c});
      }
  return list;
}

Blocks::Blocks(const Problem& from) : BlockShape(shape_of(from)) {}

void Blocks::make_problem(const Problem& from) {
  node = *from.node;
  node.op = "Conv";
  for (const char* gone : {"input_layout", "auto_pad", "dilations", "output_dtype"}) node.attributes.erase(gone);
  node.attributes["strides"] = std::vector<int64_t>{1, 1};
  node.attributes["pads"] = std::vector<int64_t>{pad_top, pad_left, 0, 0};
  node.attributes["group"] = int64_t{1};
  problem.node = &node;
  problem.inputs = from.inputs;
  problem.outputs = from.outputs;
  problem.tf32 = from.tf32;
  problem.strict = from.strict;
  problem.vendor = from.vendor;
  Operand& x = problem.inputs[0];
  x.dtype = shape.y_type;
  x.dims = {shape.batch, height, width, channels};
  x.strides = backends::dense_strides(x.dims);
  x.aligned = true;
  Operand& w = problem.inputs[1];
  w.dims = {shape.out_c, channels, taps_h, taps_w};
  w.strides = backends::dense_strides(w.dims);
  w.constant = Tensor(DType::f32, w.dims);
  const std::vector<float> weights = conv_weights(from, shape);
  float* to = w.constant.data<float>();
  size_t at = 0;
  for (const Place& place : places())
    to[((place.n * channels + place.channel) * taps_h + place.tap_h) * taps_w + place.tap_w] = weights[at++];
}

Reason refuses_blocks(const Problem& problem, const ConvShape& shape, int64_t most_channels) {
  if (shape.groups != 1) return Reason::grouped;
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return Reason::dilated;
  if (shape.stride_h != shape.stride_w) return {Reason::strides, "equal"};
  if (shape.in_c >= 8) return {Reason::too_many, 7, "channels"};
  if (problem.inputs.size() > 3 && problem.inputs[3]) return Reason::residual;
  return shape.in_c * shape.stride_h * shape.stride_h > most_channels
             ? Reason(Reason::too_many, most_channels, "channels in a block")
             : Reason();
}

Reason refuses_blocks(const Problem& problem, ConvShape& shape) {
  if (!ops::has_trait(problem.node->op, ops::Trait::convolution)) return {Reason::form, "convolution"};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (problem.node->text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (const Reason reason = refuses_blocks(problem, shape, most_channels)) return reason;
  return Blocks(problem).bytes() / 16 >= size_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

}  // namespace tenon::cuda
