// SPDX-License-Identifier: Apache-2.0
// Floats to bytes as QuantizeLinear rounds them, mostly without a division.
#pragma once

#include "backends/cpu/kernels/int8/simd_int8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Four vectors at a time. A product with 1 / scale rounds as the quotient does where it is not near halfway: of 510
// steps three roundings err by less than 1e-4, and what is farther off is no byte either way. What is near, no number
// or too large for 32 bits is divided.
class ByteQuantiser {
 public:
  TENON_INLINE ByteQuantiser(float scale, int32_t zero_point)
      : scale_(set1(scale)),
        // Of scales whose inverse is no normal number nothing is near.
        inverse_(set1(scale > 1e-30f && scale < 1e30f ? 1.f / scale : __builtin_nanf(""))),
        low_(set1(static_cast<float>(-zero_point))),
        high_(set1(static_cast<float>(255 - zero_point))),
        zero_(iset16(zero_point)) {}

  // The bytes of x, one behind the other.
  TENON_INLINE IVec operator()(const Vec (&x)[4]) const {
    const Vec magnitude = set1(__builtin_bit_cast(float, 0x7fffffff));
    IVec n[4];
    Vec far[4];
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Vec near = mul(x[i], inverse_);
      n[i] = to_int(near);
      far[i] = bit_and(sub(near, to_float(n[i])), magnitude);
    }
    const Vec farthest = larger_or_nan(larger_or_nan(far[0], far[1]), larger_or_nan(far[2], far[3]));
    if (__builtin_expect(!all_less(farthest, set1(0.4999f)), 0)) divide(x, n);
    return to_bytes(to_int16(n[0], n[1], zero_), to_int16(n[2], n[3], zero_));
  }

 private:
  TENON_INLINE void divide(const Vec (&x)[4], IVec (&n)[4]) const {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Vec quotient = min(high_, max(low_, div(x[i], scale_)));
      n[i] = to_int(select_less(quotient, set1(1e9f), quotient, zero()));  // NaN is less than nothing
    }
  }

  Vec scale_, inverse_, low_, high_;
  IVec zero_;
};

// The bytes of as many of `count` numbers as fill four vectors each time; returns how many.
TENON_INLINE int64_t quantise_fours(uint8_t* to, const float* from, float scale, int32_t zero_point, int64_t count) {
  const ByteQuantiser bytes_of(scale, zero_point);
  int64_t at = 0;
  for (; at + 4 * kLanes <= count; at += 4 * kLanes) {
    Vec x[4];
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) x[i] = load(from + at + i * kLanes);
    istore(to + at, bytes_of(x));
  }
  return at;
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
