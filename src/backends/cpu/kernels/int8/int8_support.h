// SPDX-License-Identifier: Apache-2.0
// What the baseline halves of the integer convolutions share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/int8/int8.h"
#include "backends/cpu/kernels/int8/int8_tactics.h"
#include "backends/cpu/kernels/support.h"
#include "ops/int8_steps.h"

namespace tenon::cpu {

inline int64_t group_in(const ConvShape& s) { return s.in_c / s.groups; }
inline int64_t group_out(const ConvShape& s) { return s.out_c / s.groups; }

// Calls f(group, block, k, channel of the block, weight), k being tap times channels plus channel.
template <class F>
void each_weight(const Int8Conv& conv, int64_t block, const F& f) {
  const ConvShape& s = conv.shape;
  const int64_t c = group_in(s), out = group_out(s), taps = int64_t{s.kernel_h} * s.kernel_w;
  for (int64_t o = 0; o < s.out_c; ++o)
    for (int64_t i = 0; i < c; ++i)
      for (int64_t tap = 0; tap < taps; ++tap)
        f(o / out, o % out / block, tap * c + i, static_cast<int>(o % out % block),
          conv.weights[(o * c + i) * taps + tap]);
}

// The smallest and the largest weight of a channel; 0 is between them.
inline std::pair<int, int> ends_of(const Int8Conv& conv, int64_t channel) {
  const int64_t k = group_in(conv.shape) * conv.shape.kernel_h * conv.shape.kernel_w;
  const auto [low, high] = std::minmax_element(conv.weights + channel * k, conv.weights + (channel + 1) * k);
  return k ? std::pair<int, int>(std::min<int>(0, *low), std::max<int>(0, *high)) : std::pair(0, 0);
}

// What makes bytes of the weights of each channel where it is taken from them, for whole blocks of each group; null
// where they are bytes.
inline std::shared_ptr<const std::vector<int32_t>> shifts_of(const Int8Conv& conv, int64_t block) {
  const ConvShape& s = conv.shape;
  const int64_t out = group_out(s), padded = align_up(out, block);
  auto shifts = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(padded * s.groups));
  bool any = false;
  for (int64_t o = 0; o < s.out_c; ++o) {
    const auto [low, high] = ends_of(conv, o);
    const int shift = high > INT8_MAX ? high - INT8_MAX : low < INT8_MIN ? low - INT8_MIN : 0;
    (*shifts)[static_cast<size_t>(o / out * padded + o % out)] = shift;
    any |= shift != 0;
  }
  return any ? shifts : nullptr;
}

// sum += a b, where only what all of them add up to is known to be within 32 bits.
inline void add_products(int32_t& sum, int32_t a, int32_t b) {
  sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// Whether every output stays within 31 bits before it is brought within a byte: Int8Output::bounded. No activation
// gives more than four times its input, or one; slopes are looked at.
inline bool is_bounded(const Int8Conv& conv) {
  constexpr double most = 1 << 28, most_slope = 4;
  const ConvShape& s = conv.shape;
  const bool clips = conv.epilogue.act == expr::Id::Clip;
  const double alpha = std::abs(conv.epilogue.alpha), beta = std::abs(conv.epilogue.beta);
  if (!clips && !(alpha * std::max(1.0, beta) <= most_slope && beta <= most_slope)) return false;
  const int64_t k = group_in(s) * s.kernel_h * s.kernel_w;
  const int32_t most_input = std::max(-conv.in_low, conv.in_high);
  for (int64_t o = 0; o < s.out_c; ++o) {
    if (conv.epilogue.slopes && !(std::abs(conv.epilogue.slopes[o]) <= most_slope)) return false;
    double sum = 0;
    for (int64_t at = 0; at < k; ++at) sum += std::abs(conv.weights[o * k + at]);
    double high = most_input * sum * std::abs(conv.multiplier[o]) + 1;
    if (conv.bias) high += std::abs(conv.bias[o]);
    if (conv.residual_scale) high += 255 * std::abs(conv.residual_scale[o]);
    if (clips && conv.epilogue.alpha > 0) high += conv.epilogue.alpha;
    if (clips && conv.epilogue.beta < 0) high -= conv.epilogue.beta;
    if (!(high * conv.inverse_scale[o] < most)) return false;
  }
  return true;
}

// Int8Output with lists of whole blocks for each group, or of whole blocks for all channels.
class Int8Lists {
 public:
  Int8Lists(const Int8Conv& conv, int64_t block, bool by_group = true)
      : channels_(conv.shape.out_c), group_(by_group ? group_out(conv.shape) : channels_), block_(block) {
    output_.epilogue = conv.epilogue;
    output_.multiplier = list(conv.multiplier), output_.bias = list(conv.bias);
    output_.residual_scale = list(conv.residual_scale);
    // Those that no activation reads are the bias.
    output_.epilogue.slopes = conv.epilogue.slopes ? list(conv.epilogue.slopes) : output_.bias;
    output_.residual_zero = conv.residual_zero, output_.out_zero = conv.out_zero;
    output_.dynamic = conv.dynamic, output_.sums = conv.sums;
    if (conv.zero_last) output_.weight_sums = weight_sums(conv);
    if (!conv.inverse_scale) return;
    output_.bounded = is_bounded(conv);
    output_.inverse_scale = list(conv.inverse_scale);
    const std::span inverses(conv.inverse_scale, static_cast<size_t>(channels_));
    if (ops::counts_steps(conv.epilogue.act, conv.epilogue.residual == Residual::after, inverses)) count_steps(conv);
  }
  const Int8Output& output() const { return output_; }

 private:
  void count_steps(const Int8Conv& conv) {
    std::vector<float> multiplier, bias, residual;
    float most = 0;
    for (int64_t o = 0; o < channels_; ++o) {
      const ops::ChannelSteps steps = ops::channel_steps(conv.multiplier[o], conv.bias ? conv.bias[o] : 0.f,
                                                         conv.residual_scale ? conv.residual_scale[o] : 0.f,
                                                         conv.residual_zero, conv.inverse_scale[o]);
      multiplier.push_back(steps.multiplier), bias.push_back(steps.bias), residual.push_back(steps.residual);
      most = std::max(most, std::abs(steps.bias) + 3 * 255 * std::abs(steps.residual));
    }
    // Numbers whose sum is within a byte are no larger than 900 and these, and each rounding errs by half of 2^-23.
    output_.certain = 0.5f - 0x1p-23f * (900 + most);
    lists_.clear();
    output_.in_steps = true;
    output_.multiplier = list(multiplier.data()), output_.bias = list(bias.data());
    output_.residual_scale = list(residual.data()), output_.inverse_scale = list(conv.inverse_scale);
    Epilogue& e = output_.epilogue;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const bool clips = e.act == expr::Id::Clip;
    e.alpha = clips ? e.alpha * conv.inverse_scale[0] : e.act == expr::Id::Relu ? 0.f : -infinity;
    e.beta = clips ? e.beta * conv.inverse_scale[0] : infinity;
    e.act = expr::Id::Clip, e.slopes = output_.bias;
    if (e.residual == Residual::after) e.residual = Residual::before;
  }

  // Zeros where there is none.
  const float* list(const float* given) {
    const int64_t padded = align_up(group_, block_);
    AlignedFloats& values = lists_.emplace_back(padded * (channels_ / group_));
    for (int64_t o = 0; given && o < channels_; ++o) values[o / group_ * padded + o % group_] = given[o];
    return values.data();
  }

  const int32_t* weight_sums(const Int8Conv& conv) {
    const ConvShape& s = conv.shape;
    const int64_t padded = align_up(group_, block_), k = group_in(s) * s.kernel_h * s.kernel_w;
    sums_.assign(static_cast<size_t>(padded * (channels_ / group_)), 0);
    for (int64_t o = 0; o < channels_; ++o)
      sums_[static_cast<size_t>(o / group_ * padded + o % group_)] =
          std::accumulate(conv.weights + o * k, conv.weights + (o + 1) * k, int32_t{0});
    return sums_.data();
  }

  int64_t channels_, group_, block_;
  std::vector<AlignedFloats> lists_;
  std::vector<int32_t> sums_;
  Int8Output output_{};
};

}  // namespace tenon::cpu
