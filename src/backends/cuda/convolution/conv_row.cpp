// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cuda/convolution/conv_step.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::conv_row {
namespace {

constexpr int64_t most_together = 8, most_images = 128, most_depth = 32768;

/// As conv_row.cu has it, but that its lists are as long as a block has pixels.
struct Params {
  Address x, w, bias, residual, y;
  int64_t places[3 * most_together + 5];  // of x, y and the residual, by pixel; behind them what else there is
};

/// Where a pixel begins in x, y and the residual.
std::array<int64_t, 3> places_of(const ConvShape& shape, int64_t pixel) {
  const int64_t q = pixel % shape.out_w, r = pixel / shape.out_w % shape.out_h, n = pixel / shape.out_w / shape.out_h;
  return {n * shape.x[0] + r * shape.stride_h * shape.x[1] + q * shape.stride_w * shape.x[2],
          n * shape.y[0] + r * shape.y[1] + q * shape.y[2],
          n * shape.residual[0] + r * shape.residual[1] + q * shape.residual[2]};
}

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (!shape.is_point() || shape.groups != 1) return Reason::pointwise;
  const int64_t pixels = shape.pixels(), most = shape.out_h * shape.out_w == 1 ? most_images : most_together;
  if (pixels > most) return {Reason::too_many, most, "pixels"};
  if (shape.in_c > most_depth) return {Reason::too_many, most_depth, "channels"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  return {};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  const int vector = vector_of(problem, shape);
  int most = 32;
  while (most > 2 && most / 2 >= shape.in_c / vector) most /= 2;
  std::vector<Tactic> list;
  const auto together = static_cast<int>(std::min(shape.pixels(), most_together));
  const auto add = [&](int lanes, int pixels) {
    if (lanes < 2) return;
    Source source{"conv_row.cu", epilogue_defines(conv_epilogue(problem)), ""};
    for (const std::string& word :
         {define_type("ELEMENT", shape.x_type), define_type("TY", shape.y_type), define("VEC", vector),
          define("LANES", lanes), define("PIXELS", pixels), define("DEPTH", shape.in_c)})
      source.defines.push_back(word);
    const std::string name = "row by " + std::to_string(lanes);
    list.push_back(
        {pixels < shape.pixels() ? name + " of " + std::to_string(pixels) : name, {source}, {lanes, pixels}});
  };
  add(most, together), add(most / 4, together);
  if (together < shape.pixels()) add(most, together / 2);
  return list;
}

class RowStep : public ConvStep<Params> {
 public:
  RowStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "conv_row") {
    ConvShape shape{};
    conv_shape(problem, shape);
    pack_weights(problem, shape);
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = has_residual(problem) && epilogue.residual != ops::Residual::none;
    const auto pixels = static_cast<size_t>(tactic.numbers[1]);
    for (size_t pixel = 0; pixel < pixels; ++pixel)
      for (size_t at = 0; at < 3; ++at)
        params_.places[at * pixels + pixel] = places_of(shape, static_cast<int64_t>(pixel))[at];
    // More pixels than a block takes are images of one.
    const std::array<int64_t, 3> next = places_of(shape, tactic.numbers[1]);
    std::copy(next.begin(), next.end(), params_.places + 3 * pixels);
    const struct {
      int channels, pixels;
      float alpha, beta;
    } rest{static_cast<int>(shape.out_c), static_cast<int>(shape.pixels()), epilogue.alpha, epilogue.beta};
    std::memcpy(params_.places + 3 * pixels + 3, &rest, sizeof rest);
    grid_ = {ceil_div(shape.out_c * tactic.numbers[0], 128), ceil_div(shape.pixels(), tactic.numbers[1]), 1, 128, 0};
  }

 private:
  /// Rows of weights in the type of the pixels, and behind them the bias in f32.
  void pack_weights(const Problem& problem, const ConvShape& shape) {
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
    const size_t element = size_of(shape.x_type), bias_at = (weights.size() * element + 15) / 16 * 16;
    std::vector<std::byte> bytes(bias_at + bias.size() * sizeof(float));
    for (size_t at = 0; at < weights.size(); ++at) {
      const uint16_t narrow = is_16_bit(shape.x_type) ? bits16_of(weights[at], shape.x_type) : uint16_t{0};
      std::memcpy(bytes.data() + at * element,
                  is_16_bit(shape.x_type) ? static_cast<const void*>(&narrow) : &weights[at], element);
    }
    std::memcpy(bytes.data() + bias_at, bias.data(), bias.size() * sizeof(float));
    params_.w = pack(bytes.data(), bytes.size());
    params_.bias = params_.w + bias_at;
  }
};

const KernelRegistrar registered({"Conv", "Gemm", "MatMul"}, {"", "row", 4, refuses, tactics, make_step<RowStep>});

}  // namespace
}  // namespace tenon::cuda::conv_row
