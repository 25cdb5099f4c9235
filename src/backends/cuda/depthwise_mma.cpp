#include <algorithm>

#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/depthwise_mma.cu has it.
struct Params {
  Address x, w, bias, y;
  int64_t xs[3], ys[3];
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, groups, tiles_x, tiles_y, units;
  float alpha, beta;
};

constexpr int columns = 8, rows = 2, group = 32;

const char* refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 80) return "it needs compute capability 8.0";
  ConvShape shape{};
  if (const char* reason = conv_shape(problem, shape)) return reason;
  if (!is_narrow(shape.x_type) || shape.y_type != shape.x_type) return "only 16-bit floats";
  if (shape.groups != shape.in_c || shape.out_c != shape.in_c) return "not depthwise";
  if (shape.kernel_h != 3 || shape.kernel_w != 3) return "only windows of 3x3";
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return "it has gaps between taps";
  if (shape.stride_h != shape.stride_w || shape.stride_h > 2) return "only strides 1 and 2";
  if (problem.inputs.size() > 3 && problem.inputs[3]) return "it has a residual";
  if (shape.in_c % 8) return "channels are no multiple of 8";
  if (shape.x[3] != 1 || shape.y[3] != 1) return "channels are not contiguous";
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % 8 || shape.y[at] % 8) return "pixels are not aligned";
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned) return "a tensor is not aligned";
  return shape.pixels() * shape.in_c >= int64_t{1} << 34 ? "too large" : nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const auto& [steps, ahead] : {std::pair{4, 1}, {2, 1}, {7, 1}, {1, 0}, {2, 0}, {4, 0}, {7, 0}}) {
    if (steps > 1 && (steps - 1) * rows >= shape.out_h) continue;
    Source source{"depthwise_mma.cu", epilogue_defines(conv_epilogue(problem)), ""};
    source.defines.push_back(define("STRIDE", shape.stride_h));
    source.defines.push_back(define("STEPS", steps));
    source.defines.push_back(define("AHEAD", ahead));
    list.push_back({"diagonal 8x" + std::to_string(rows * steps) + (ahead ? " ahead" : ""), {source}, {steps}});
  }
  return list;
}

class DiagonalStep : public Step {
 public:
  DiagonalStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "depthwise_mma")) {
    ConvShape shape{};
    conv_shape(problem, shape);
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
    const auto taps = static_cast<size_t>(shape.kernel_h * shape.kernel_w), channels = static_cast<size_t>(shape.in_c);
    std::vector<uint16_t> packed(taps * channels);
    for (size_t c = 0; c < channels; ++c)
      for (size_t tap = 0; tap < taps; ++tap)
        packed[tap * channels + c] = narrow_of(weights[c * taps + tap], shape.x_type);
    const size_t weight_bytes = packed.size() * 2;
    packed_ = Buffer::kept(weight_bytes + channels * sizeof(float));
    packed_.upload(packed.data(), weight_bytes);
    packed_.upload(bias.data(), channels * sizeof(float), weight_bytes);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    const ops::Epilogue epilogue = conv_epilogue(problem);
    params_.w = packed_.address(), params_.bias = packed_.address() + weight_bytes;
    params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
    params_.out_h = number(shape.out_h), params_.out_w = number(shape.out_w), params_.channels = number(shape.in_c);
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.groups = number(ceil_div(shape.in_c, group));
    params_.tiles_x = number(ceil_div(shape.out_w, columns));
    params_.tiles_y = number(ceil_div(shape.out_h, rows * tactic.numbers[0]));
    params_.units = number(shape.batch * params_.tiles_y * params_.tiles_x * params_.groups);
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    for (int at = 0; at < 3; ++at) params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at];
    grid_ = {ceil_div(params_.units, 4), 1, 1, 128, 0};
  }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Buffer packed_;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"Conv", "diagonal", 4, refuses, tactics, make_step<DiagonalStep>});

}  // namespace
}  // namespace tenon::cuda
