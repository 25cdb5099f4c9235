// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/depthwise/depthwise_diagonal_params.h"
#include "backends/cuda/depthwise/depthwise_params.h"
#include "backends/cuda/convolution/conv_step.h"
#include "backends/cuda/convolution/convolution.h"

/// What kernels of depthwise convolutions share.
namespace tenon::cuda {

/// Why it is no depthwise convolution of up to so many taps over contiguous channels; nullptr where it is.
inline Reason depthwise_shape(const Problem& problem, ConvShape& shape, int most_taps = 49) {
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (shape.groups != shape.in_c || shape.out_c != shape.in_c) return Reason::not_depthwise;
  if (shape.kernel_h * shape.kernel_w > most_taps) return {Reason::too_many, most_taps, "taps"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  return shape.pixels() * shape.in_c >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

/// Weights as [tap][channel] in f32 with the bias behind them, and all parameters but strips and count.
class DepthwiseBase : public ConvStep<DepthwiseParams> {
 protected:
  DepthwiseBase(const Problem& problem, const ConvShape& shape, Device& device, const Source& source,
                const char* function, int shared_bytes = 0)
      : ConvStep(device, source, function, shared_bytes) {
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
    const auto taps = static_cast<size_t>(shape.kernel_h * shape.kernel_w), channels = static_cast<size_t>(shape.in_c);
    std::vector<float> packed((taps + 1) * channels);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t tap = 0; tap < taps; ++tap) packed[tap * channels + c] = weights[c * taps + tap];
      packed[taps * channels + c] = bias[c];
    }
    const Address weights_at = pack(packed.data(), packed.size() * sizeof(float));
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = has_residual(problem) && epilogue.residual != ops::Residual::none;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    params_.w = weights_at, params_.bias = weights_at + taps * channels * sizeof(float);
    params_.in_h = size(shape.in_h), params_.in_w = size(shape.in_w);
    params_.out_h = size(shape.out_h), params_.out_w = size(shape.out_w), params_.channels = size(shape.in_c);
    params_.pad_top = shape.pad_top, params_.pad_left = shape.pad_left;
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
  }
};

using DiagonalParams = DepthwiseDiagonalParams;

/// Why products by diagonal matrices do not serve a depthwise convolution; nullptr where they do.
Reason refuses_diagonal(const Problem& problem, const Properties& properties, ConvShape& shape);

/// Weights as [tap][channel] in the type of the pixels with the bias in f32 behind them, tiles of `rows` x `columns`.
class DiagonalBase : public ConvStep<DiagonalParams> {
 protected:
  DiagonalBase(const Problem& problem, const ConvShape& shape, Device& device, const Source& source,
               const char* function, int64_t rows, int64_t columns, int shared_bytes = 0);
};

}  // namespace tenon::cuda
