// SPDX-License-Identifier: Apache-2.0
// From the sums of four vectors of channels, in the order of column_place, to bytes.
#pragma once

#include "backends/cpu/kernels/int8/int8_columns.h"

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/int8/int8_near.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Of the block of channels whose lists begin at `place`.
template <class Act, bool kWhole>
class ColumnFinish {
 public:
  static constexpr int kVectors = kTogether;

  TENON_INLINE ColumnFinish(const Int8ColumnPlan& plan, const Int8Output& o, int64_t place, int channels)
      : out_zero_(iset16(o.out_zero)),
        low_(iset8(plan.low)),
        high_(iset8(plan.high)),
        epilogue_(o.epilogue),
        multiplier_(o.multiplier + place),
        bias_(o.bias + place),
        inverse_(o.inverse_scale + place),
        slopes_(o.epilogue.slopes + place),
        channels_(channels) {
    if constexpr (kNearly) {
      Vec widest = zero();
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) widest = max(widest, load(inverse_ + v * kLanes));
      certain_ = sub(set1(0.5f), near_error<expr::Silu>(largest(widest)));
    }
  }

  TENON_INLINE void operator()(const IVec (&sums)[kVectors], uint8_t* out) const {
    IVec whole[kVectors];
    Vec y[kVectors];
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Vec by = load(multiplier_ + v * kLanes), more = load(bias_ + v * kLanes);
      y[v] = kInSteps ? fused(to_float(sums[v]), by, more) : add(mul(to_float(sums[v]), by), more);
    }
    bool known = false;
    if constexpr (kNearly) {
      Vec near[kVectors];
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) near[v] = mul(y[v], load(inverse_ + v * kLanes));
      near_activation<Act>(y, 0, near);
      known = rounds_alike(near, certain_, whole);
    }
    if (!known) {
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (!kInSteps)
          y[v] = mul(activate<Act>(y[v], epilogue_, slopes_ + v * kLanes), load(inverse_ + v * kLanes));
        whole[v] = to_int(y[v]);
      }
    }
    const IVec ab = to_int16(whole[0], whole[1], out_zero_), cd = to_int16(whole[2], whole[3], out_zero_);
    store_channels<kWhole>(out, clamp_bytes(to_bytes_in_lanes(ab, cd), low_, high_), channels_);
  }

 private:
  static constexpr bool kInSteps = std::is_same_v<Act, expr::Identity>;
  static constexpr bool kNearly = std::is_same_v<Act, expr::Silu> && kIsNear<Act>;
  IVec out_zero_, low_, high_;
  Epilogue epilogue_;
  const float *multiplier_, *bias_, *inverse_, *slopes_;
  int channels_;
  Vec certain_ = zero();
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
