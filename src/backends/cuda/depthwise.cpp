#include <algorithm>

#include "backends/cuda/conv_step.h"
#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/depthwise.cu has it.
struct Params {
  Address x, w, bias, residual, y;
  int64_t xs[3], ys[3], rs[3];
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, strips, count;
  float alpha, beta;
};

constexpr int most_taps = 49;

bool has_residual(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

/// Channels a thread may take at once: 8 bytes of f16, 16 of f32, or one.
std::vector<int> vectors(const Problem& problem, const ConvShape& shape) {
  std::vector<int> list;
  for (const int vector : {8, 4, 2, 1}) {
    const auto fits = [&](const Operand& operand, const int64_t(&strides)[4]) {
      const size_t bytes = size_of(operand.dtype) * static_cast<size_t>(vector);
      bool good = bytes <= 16 && (vector == 1 || operand.aligned);
      for (int at = 0; at < 3; ++at) good = good && strides[at] % vector == 0;
      return good;
    };
    if (shape.in_c % vector == 0 && fits(problem.inputs[0], shape.x) && fits(problem.outputs[0], shape.y) &&
        (!has_residual(problem) || fits(problem.inputs[3], shape.residual)))
      list.push_back(vector);
  }
  return list;
}

const char* refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const char* reason = conv_shape(problem, shape)) return reason;
  if (shape.groups != shape.in_c || shape.out_c != shape.in_c) return "not depthwise";
  if (shape.kernel_h * shape.kernel_w > most_taps) return "too many taps";
  if (shape.x[3] != 1 || shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1))
    return "channels are not contiguous";
  return shape.pixels() * shape.in_c >= int64_t{1} << 31 ? "too large" : nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const int vector : vectors(problem, shape))
    for (const int strip : {4, 2, 1}) {
      if (list.size() >= 6 || (strip > shape.out_w && strip > 1)) continue;
      Source source{"depthwise.cu", epilogue_defines(conv_epilogue(problem)), ""};
      for (const std::string& word :
           {define_type("ELEMENT", shape.x_type), define_type("TY", shape.y_type), define("VEC", vector),
            define("TW", strip), define("KH", shape.kernel_h), define("KW", shape.kernel_w),
            define("SH", shape.stride_h), define("SW", shape.stride_w), define("DH", shape.dilation_h),
            define("DW", shape.dilation_w)})
        source.defines.push_back(word);
      list.push_back({"depthwise " + std::to_string(vector) + "x" + std::to_string(strip), {source}, {vector, strip}});
    }
  return list;
}

class DepthwiseStep : public ConvStep<Params> {
 public:
  DepthwiseStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "depthwise") {
    ConvShape shape{};
    conv_shape(problem, shape);
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
    const auto taps = static_cast<size_t>(shape.kernel_h * shape.kernel_w), channels = static_cast<size_t>(shape.in_c);
    std::vector<float> packed((taps + 1) * channels);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t tap = 0; tap < taps; ++tap) packed[tap * channels + c] = weights[c * taps + tap];
      packed[taps * channels + c] = bias[c];
    }
    const Address weights_at = pack(packed.data(), packed.size() * sizeof(float));
    const int vector = tactic.numbers[0], strip = tactic.numbers[1];
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = has_residual(problem) && epilogue.residual != ops::Residual::none;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    const int64_t strips = ceil_div(shape.out_w, strip);
    params_.w = weights_at, params_.bias = weights_at + taps * channels * sizeof(float);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w), params_.channels = size(shape.in_c);
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.strips = size(strips);
    params_.count = size(shape.batch * shape.out_h * strips * shape.in_c / vector);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    grid_ = {ceil_div(params_.count, 128), 1, 1, 128, 0};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<DepthwiseStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Conv", "depthwise", 3, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
