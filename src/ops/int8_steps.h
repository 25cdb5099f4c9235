// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/epilogue.h"

/// Results of INT8 convolutions that are counted in steps of their scale: where nothing but a clamp comes after the
/// sums, the result's scale is part of the numbers that these are multiplied by.
namespace tenon::ops {

/// Whether it is such a convolution. `inverses`: one over the result's scale, one for all channels or one for each;
/// ends of a clip have to be alike for all.
inline bool counts_steps(expr::Id activation, bool residual_after, std::span<const float> inverses) {
  if (residual_after && activation != expr::Id::Identity) return false;
  if (activation == expr::Id::Identity || activation == expr::Id::Relu) return true;
  const auto alike = [&](float inverse) { return inverse == inverses[0]; };
  return activation == expr::Id::Clip && std::all_of(inverses.begin(), inverses.end(), alike);
}

/// Whether sums of a channel's weights times inputs from `low` to `high` stay within 32 bits; 0 is between these.
inline bool holds_sums(std::span<const int16_t> weights, int64_t low, int64_t high) {
  int64_t least = 0, most = 0;
  for (const int64_t w : weights) least += std::min(w * low, w * high), most += std::max(w * low, w * high);
  return least >= INT32_MIN && most <= INT32_MAX;
}

/// A channel's numbers. The result is round(fma(residual byte, residual, fma(sum, multiplier, bias))) + zero point, its
/// clamp in steps, too, with the residual's zero point part of the bias.
struct ChannelSteps {
  float multiplier, bias, residual;
};
inline ChannelSteps channel_steps(float multiplier, float bias, float residual_scale, int residual_zero,
                                  float inverse) {
  const double by = inverse;
  const auto residual = static_cast<float>(residual_scale * by);
  return {static_cast<float>(multiplier * by), static_cast<float>(bias * by - residual_zero * double{residual}),
          residual};
}

}  // namespace tenon::ops
