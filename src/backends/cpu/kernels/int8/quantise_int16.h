// SPDX-License-Identifier: Apache-2.0
// Floats to int16 as QuantizeLinear rounds them, mostly without a division.
#pragma once

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/f32/windows_isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Whole numbers within `low` and `high` that x are in steps of `scale`, and `zero`. A product with 1 / scale rounds as
// the quotient does where it is not near halfway: three roundings err by 1.8e-7 of it. What is near, or no number, is
// divided.
class Int16Quantiser {
 public:
  TENON_INLINE Int16Quantiser(float scale, int32_t zero, int32_t low, int32_t high)
      : scale_(set1(scale)),
        // Of scales whose inverse is no normal number nothing is near.
        inverse_(set1(scale > 1e-30f && scale < 1e30f ? 1.f / scale : __builtin_nanf(""))),
        low_(set1(static_cast<float>(low))),
        high_(set1(static_cast<float>(high))),
        zero_(iset1(zero)) {}

  TENON_INLINE int16_t* copy(int16_t* to, const float* from, int64_t count) const {
    if (count < kLanes) {
      float numbers[kLanes] = {};
      int16_t integers[kLanes];
      for (int64_t at = 0; at < count; ++at) numbers[at] = from[at];
      store_int16(integers, int16_of(load(numbers)));
      for (int64_t at = 0; at < count; ++at) to[at] = integers[at];
      return to + count;
    }
    for (int64_t at = 0; at < count; at += kLanes) {
      const int64_t begin = smaller(at, count - kLanes);  // the last overlaps the one before
      store_int16(to + begin, int16_of(load(from + begin)));
    }
    return to + count;
  }
  TENON_INLINE int16_t* pad(int16_t* to, int64_t count) const {
    int16_t integers[kLanes];
    store_int16(integers, zero_);
    for (int64_t at = 0; at < count; ++at) to[at] = integers[0];
    return to + count;
  }

 private:
  TENON_INLINE IVec int16_of(Vec x) const {
    const Vec magnitude = set1(__builtin_bit_cast(float, 0x7fffffff));
    const Vec near = min(high_, max(low_, mul(x, inverse_)));
    IVec n = to_int(near);
    const Vec far = bit_and(sub(near, to_float(n)), magnitude), size = bit_and(near, magnitude);
    if (__builtin_expect(!all_less(add(far, mul(size, set1(1.8e-7f))), set1(0.5f)), 0)) {
      const Vec quotient = min(high_, max(low_, div(x, scale_)));
      n = to_int(select_less(quotient, set1(1e9f), quotient, zero()));  // NaN is less than nothing
    }
    return iadd(n, zero_);
  }

  Vec scale_, inverse_, low_, high_;
  IVec zero_;
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
