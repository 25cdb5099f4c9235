// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cuda/convolution/int8_direct_params.h"
#include "backends/cuda/convolution/int8_conv.h"
#include "backends/cuda/convolution/conv_step.h"

namespace tenon::cuda::int8_direct {
namespace {

using Params = Int8DirectParams;

class Int8DirectStep : public ConvStep<Params> {
 public:
  Int8DirectStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "int8_direct") {
    Int8Conv conv;
    dynamic_ = has_dynamic_scale(problem);
    int8_conv(problem, conv, dynamic_);
    const ConvShape& shape = conv.shape;
    const std::vector<int8_t> weights = int8_weights(problem, shape);
    const int64_t depth = shape.depth(), out = shape.channels_out();
    const std::vector<uint32_t> numbers = numbers_of(conv, {}, shape.out_c);
    const size_t begin = (weights.size() + 15) / 16 * 16;
    std::vector<int8_t> packed(begin + numbers.size() * 4);
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t k = 0; k < depth; ++k) packed[(n / out * depth + k) * out + n % out] = weights[n * depth + k];
    std::memcpy(packed.data() + begin, numbers.data(), numbers.size() * 4);
    const Address weights_at = pack(packed.data(), packed.size());
    residual_ = conv.has_residual();
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    params_.w = weights_at, params_.lists = lists_at(weights_at + begin, shape.out_c);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w);
    params_.c_in = size(shape.channels_in()), params_.c_out = size(out), params_.kernel_w = shape.kernel_w;
    params_.stride_h = shape.stride_h, params_.stride_w = shape.stride_w;
    params_.dilation_h = shape.dilation_h, params_.dilation_w = shape.dilation_w;
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.pixels = size(shape.pixels()), params_.depth = size(depth), params_.tiles = size(ceil_div(out, 64));
    params_.x_zero = conv.x_zero, params_.x_scale = conv.x_scale, params_.finish = finish_of(conv);
    for (int at = 0; at < 4; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    grid_ = {ceil_div(shape.pixels(), 64), params_.tiles * shape.groups, 1, 256, 0};
    has_zero_ = problem.inputs.size() > x_zero_at && problem.inputs[x_zero_at];
  }
  bool reads(size_t input) const override {
    return ConvStep::reads(input) || (dynamic_ && (input == x_scale_at || input == x_zero_at));
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    if (dynamic_) params.dynamic_scale = at.inputs[x_scale_at];
    if (dynamic_ && has_zero_) params.dynamic_zero = at.inputs[x_zero_at];
    ConvStep::enqueue(at, params);
  }

 private:
  bool dynamic_, has_zero_;
};

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = int8_shape(problem, shape, has_dynamic_scale(problem))) return reason;
  return ceil_div(shape.channels_out(), 64) * shape.groups > 65535 ? Reason(Reason::too_many, 65535, "groups")
                                                                   : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Int8Conv conv;
  int8_conv(problem, conv, has_dynamic_scale(problem));
  std::vector<std::string> defines = int8_defines(conv);
  defines.push_back(define("DYNAMIC", has_dynamic_scale(problem)));
  defines.push_back(define_type("TX", conv.shape.x_type));
  defines.push_back(define_bytes("TY", conv.shape.y_type));
  return {{"direct", {byte_source({"direct.cuh", "int8_direct.cu"}, defines)}, {}}};
}

const KernelRegistrar registered({"tenon:Int8Conv", "tenon:Float8Conv"},
                                 {"", "direct", 0, refuses, tactics, make_step<Int8DirectStep>});

}  // namespace
}  // namespace tenon::cuda::int8_direct
