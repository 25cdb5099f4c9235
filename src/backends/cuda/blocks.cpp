#include "backends/cuda/blocks.h"

namespace tenon::cuda {
namespace {

constexpr int most_channels = 1024;

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

Blocks::Blocks(const Problem& from) {
  conv_shape(from, shape);
  block = shape.stride_h;
  channels = ceil_div(shape.in_c * block * block, 16) * 16;
  height = ceil_div(shape.in_h, block), width = ceil_div(shape.in_w, block);
  pad_top = -floor_div(-shape.pad_top, block), pad_left = -floor_div(-shape.pad_left, block);
  taps_h = floor_div(shape.kernel_h - 1 - shape.pad_top, block) + pad_top + 1;
  taps_w = floor_div(shape.kernel_w - 1 - shape.pad_left, block) + pad_left + 1;
}

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
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t i = 0; i < shape.kernel_h; ++i)
      for (int64_t j = 0; j < shape.kernel_w; ++j) {
        const int64_t tap_h = floor_div(i - shape.pad_top, block) + pad_top,
                      row = i - shape.pad_top - (tap_h - pad_top) * block;
        const int64_t tap_w = floor_div(j - shape.pad_left, block) + pad_left,
                      column = j - shape.pad_left - (tap_w - pad_left) * block;
        for (int64_t c = 0; c < shape.in_c; ++c)
          to[((n * channels + (row * block + column) * shape.in_c + c) * taps_h + tap_h) * taps_w + tap_w] =
              weights[((n * shape.kernel_h + i) * shape.kernel_w + j) * shape.in_c + c];
      }
}

const char* refuses_blocks(const Problem& problem, ConvShape& shape) {
  if (problem.node->op != "Conv") return "no convolution";
  if (const char* reason = conv_shape(problem, shape)) return reason;
  if (problem.node->text("layout", "") != "NHWC") return "only channels-last results";
  if (shape.groups != 1 || shape.dilation_h != 1 || shape.dilation_w != 1) return "only one group without dilation";
  if (shape.stride_h != shape.stride_w) return "strides differ";
  if (shape.in_c >= 8) return "many channels";
  if (problem.inputs.size() > 3 && problem.inputs[3]) return "it has a residual";
  if (shape.in_c * shape.stride_h * shape.stride_h > most_channels) return "large blocks";
  return Blocks(problem).bytes() / 16 >= size_t{1} << 31 ? "too large" : nullptr;
}

}  // namespace tenon::cuda
