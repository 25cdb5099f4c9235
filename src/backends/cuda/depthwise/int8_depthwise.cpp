// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cuda/depthwise/int8_depthwise_params.h"
#include "backends/cuda/convolution/int8_conv.h"
#include "backends/cuda/convolution/conv_step.h"

namespace tenon::cuda::int8_depthwise {
namespace {

using Params = Int8DepthwiseParams;

constexpr int most_taps = 49;

/// Channels a thread may take at once.
bool takes(const Problem& problem, const ConvShape& shape, int vector) {
  bool fits = shape.in_c % vector == 0 && problem.inputs[0].aligned && problem.outputs[0].aligned &&
              (!has_residual(problem) || problem.inputs[3].aligned);
  for (int at = 0; at < 3; ++at)
    fits = fits && shape.x[at] % vector == 0 && shape.y[at] % vector == 0 && shape.residual[at] % vector == 0;
  return fits;
}

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = int8_shape(problem, shape)) return reason;
  if (shape.x_type != DType::u8) return {Reason::element_type, "the input", "bytes"};
  if (shape.groups != shape.in_c || shape.out_c != shape.in_c) return Reason::not_depthwise;
  if (shape.kernel_h * shape.kernel_w > most_taps) return {Reason::too_many, most_taps, "taps"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  if (!takes(problem, shape, 4)) return {Reason::not_multiple, "channels", 4};
  return shape.pixels() * shape.in_c >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Int8Conv conv;
  int8_conv(problem, conv);
  const ConvShape& shape = conv.shape;
  std::vector<Tactic> list;
  for (const int vector : {4, 8})
    for (const int strip : {4, 2, 1}) {
      if (!takes(problem, shape, vector) || (strip > shape.out_w && strip > 1)) continue;
      std::vector<std::string> defines = int8_defines(conv);
      for (const std::string& word :
           {define_type("TY", shape.y_type), define("VEC", vector), define("TW", strip), define("KH", shape.kernel_h),
            define("KW", shape.kernel_w), define("SH", shape.stride_h), define("SW", shape.stride_w),
            define("DH", shape.dilation_h), define("DW", shape.dilation_w)})
        defines.push_back(word);
      list.push_back({"depthwise " + std::to_string(vector) + "x" + std::to_string(strip),
                      {byte_source({"int8_depthwise.cu"}, defines)},
                      {vector, strip}});
    }
  return list;
}

class Int8DepthwiseStep : public ConvStep<Params> {
 public:
  Int8DepthwiseStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "int8_depthwise") {
    Int8Conv conv;
    int8_conv(problem, conv);
    const ConvShape& shape = conv.shape;
    const std::vector<int8_t> weights = int8_weights(problem, shape);
    const std::vector<uint32_t> numbers = numbers_of(conv, zero_sums(conv, weights), shape.in_c);
    const auto taps = static_cast<size_t>(shape.kernel_h * shape.kernel_w), channels = static_cast<size_t>(shape.in_c);
    const size_t begin = (taps * channels + 15) / 16 * 16;
    std::vector<int8_t> packed(begin + numbers.size() * 4);
    for (size_t c = 0; c < channels; ++c)
      for (size_t tap = 0; tap < taps; ++tap) packed[tap * channels + c] = weights[c * taps + tap];
    std::memcpy(packed.data() + begin, numbers.data(), numbers.size() * 4);
    const Address weights_at = pack(packed.data(), packed.size());
    const int vector = tactic.numbers[0], strip = tactic.numbers[1];
    residual_ = conv.has_residual();
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    const int64_t strips = ceil_div(shape.out_w, strip);
    params_.w = weights_at, params_.lists = lists_at(weights_at + begin, shape.in_c);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w), params_.channels = size(shape.in_c);
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left, params_.strips = size(strips);
    params_.count = size(shape.batch * shape.out_h * strips * shape.in_c / vector);
    params_.fill = static_cast<uint32_t>(conv.x_zero) * 0x01010101u, params_.finish = finish_of(conv);
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    grid_ = {ceil_div(params_.count, 128), 1, 1, 128, 0};
  }
};

const KernelRegistrar registered({"tenon:Int8Conv", "depthwise", 3, refuses, tactics, make_step<Int8DepthwiseStep>});

}  // namespace
}  // namespace tenon::cuda::int8_depthwise
