// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cuda/depthwise/depthwise.h"

namespace tenon::cuda {
namespace {

constexpr int columns = 8, rows = 2, group = 32, tiles_of_block = 4;

}  // namespace

Reason refuses_diagonal(const Problem& problem, const Properties& properties, ConvShape& shape) {
  if (properties.capability() < 80) return {Reason::capability, "it", "8.0"};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (const Reason reason = refuses_added_zeros(problem)) return reason;
  if (!is_16_bit(shape.x_type) || shape.y_type != shape.x_type)
    return {Reason::element_type, "elements", "f16 or bf16"};
  if (shape.groups != shape.in_c || shape.out_c != shape.in_c) return Reason::not_depthwise;
  if (shape.dilation_h != 1 || shape.dilation_w != 1) return Reason::dilated;
  if (shape.stride_h != shape.stride_w || shape.stride_h > 2) return {Reason::strides, "1 or 2"};
  if (problem.inputs.size() > 3 && problem.inputs[3]) return Reason::residual;
  if (shape.in_c % 8) return {Reason::not_multiple, "channels", 8};
  if (shape.x[3] != 1 || shape.y[3] != 1) return {Reason::not_contiguous, "channels"};
  for (int at = 0; at < 3; ++at)
    if (shape.x[at] % 8 || shape.y[at] % 8) return {Reason::unaligned, "pixels"};
  if (!problem.inputs[0].aligned || !problem.outputs[0].aligned) return {Reason::unaligned, "operand"};
  return shape.pixels() * shape.in_c >= int64_t{1} << 34 ? Reason(Reason::too_large) : Reason();
}

DiagonalBase::DiagonalBase(const Problem& problem, const ConvShape& shape, Device& device, const Source& source,
                           const char* function, int64_t rows, int64_t columns, int shared_bytes)
    : ConvStep(device, source, function, shared_bytes) {
  const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
  const auto taps = static_cast<size_t>(shape.kernel_h * shape.kernel_w), channels = static_cast<size_t>(shape.in_c);
  const size_t weight_bytes = taps * channels * sizeof(uint16_t);
  std::vector<std::byte> bytes(weight_bytes + channels * sizeof(float));
  for (size_t c = 0; c < channels; ++c)
    for (size_t tap = 0; tap < taps; ++tap) {
      const uint16_t narrow = bits16_of(weights[c * taps + tap], shape.x_type);
      std::memcpy(bytes.data() + (tap * channels + c) * sizeof narrow, &narrow, sizeof narrow);
    }
  std::memcpy(bytes.data() + weight_bytes, bias.data(), channels * sizeof(float));
  params_.w = pack(bytes.data(), bytes.size());
  params_.bias = params_.w + weight_bytes;
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  const ops::Epilogue epilogue = conv_epilogue(problem);
  params_.in_h = number(shape.in_h), params_.in_w = number(shape.in_w);
  params_.out_h = number(shape.out_h), params_.out_w = number(shape.out_w), params_.channels = number(shape.in_c);
  params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
  params_.groups = number(ceil_div(shape.in_c, group));
  params_.tiles_x = number(ceil_div(shape.out_w, columns)), params_.tiles_y = number(ceil_div(shape.out_h, rows));
  params_.units = number(shape.batch * params_.tiles_y * params_.tiles_x * params_.groups);
  params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
  for (int at = 0; at < 3; ++at) params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at];
}

namespace {

Reason refuses(const Problem& problem, const Properties& properties) {
  ConvShape shape{};
  if (const Reason reason = refuses_diagonal(problem, properties, shape)) return reason;
  return shape.kernel_h != 3 || shape.kernel_w != 3 ? Reason(Reason::window, "3x3") : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const auto& [steps, ahead] : {std::pair{4, 1}, {2, 1}, {7, 1}, {1, 0}, {2, 0}, {4, 0}, {7, 0}}) {
    if (steps > 1 && (steps - 1) * rows >= shape.out_h) continue;
    Source source = source_from({"diagonal.cuh", "depthwise_diagonal.cuh", "depthwise_mma.cu"},
                                epilogue_defines(conv_epilogue(problem)));
    source.defines.push_back(define("STRIDE", shape.stride_h));
    source.defines.push_back(define("STEPS", steps));
    source.defines.push_back(define("AHEAD", ahead));
    list.push_back({"diagonal 8x" + std::to_string(rows * steps) + (ahead ? " ahead" : ""), {source}, {steps}});
  }
  return list;
}

class DiagonalStep : public DiagonalBase {
 public:
  DiagonalStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic)
      : DiagonalBase(problem, shape, device, tactic.sources[0], "depthwise_mma", rows * tactic.numbers[0], columns) {
    grid_ = {ceil_div(params_.units, tiles_of_block), 1, 1, 32 * tiles_of_block, 0};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  ConvShape shape{};
  conv_shape(problem, shape);
  return std::make_unique<DiagonalStep>(problem, shape, device, tactic);
}

const KernelRegistrar registered({"Conv", "diagonal", 4, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
