#include "backends/cuda/byte_blocks.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

constexpr int64_t most_channels = 256;

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

ByteBlocks::ByteBlocks(const Problem& from) {
  byte_conv(from, conv);
  const ConvShape& shape = conv.shape;
  block = shape.stride_h;
  channels = ceil_div(shape.in_c * block * block, 16) * 16;
  height = ceil_div(shape.in_h, block), width = ceil_div(shape.in_w, block);
  pad_top = -floor_div(-shape.pad_top, block), pad_left = -floor_div(-shape.pad_left, block);
  taps_h = floor_div(shape.kernel_h - 1 - shape.pad_top, block) + pad_top + 1;
  taps_w = floor_div(shape.kernel_w - 1 - shape.pad_left, block) + pad_left + 1;
}

std::vector<int8_t> ByteBlocks::weights(const Problem& from) const {
  const ConvShape& shape = conv.shape;
  const std::vector<int8_t> given = byte_weights(from, shape);
  std::vector<int8_t> list(static_cast<size_t>(shape.out_c * taps_h * taps_w * channels), 0);
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t i = 0; i < shape.kernel_h; ++i)
      for (int64_t j = 0; j < shape.kernel_w; ++j) {
        const int64_t tap_h = floor_div(i - shape.pad_top, block) + pad_top;
        const int64_t tap_w = floor_div(j - shape.pad_left, block) + pad_left;
        const int64_t row = i - shape.pad_top - (tap_h - pad_top) * block;
        const int64_t column = j - shape.pad_left - (tap_w - pad_left) * block;
        for (int64_t c = 0; c < shape.in_c; ++c)
          list[((n * taps_h + tap_h) * taps_w + tap_w) * channels + (row * block + column) * shape.in_c + c] =
              given[((n * shape.kernel_h + i) * shape.kernel_w + j) * shape.in_c + c];
      }
  return list;
}

const char* refuses_byte_blocks(const Problem& problem, ConvShape& shape) {
  if (const char* reason = byte_shape(problem, shape)) return reason;
  if (shape.groups != 1 || shape.dilation_h != 1 || shape.dilation_w != 1) return "only one group without dilation";
  if (shape.stride_h != shape.stride_w) return "strides differ";
  if (shape.in_c >= 8) return "many channels";
  if (problem.inputs.size() > 3 && problem.inputs[3]) return "it has a residual";
  if (shape.in_c * shape.stride_h * shape.stride_h > most_channels) return "large blocks";
  return shape.batch * (shape.in_h + 256) * (shape.in_w + 256) >= int64_t{1} << 31 ? "too large" : nullptr;
}

}  // namespace tenon::cuda
