// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cpu/kernels/vecmath.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// tanh(x) * sigmoid(y) with one division for both: tanh below 0.625 as tanh() has it, above (e - 1) / (e + 1), e =
// exp(2 |x|), both parts scaled so that their product with 1 + exp(-y) is finite where that is.
static TENON_INLINE Vec gate_of(Vec x, Vec y) {
  const Vec a = abs(x);
  const Vec small = small_tanh(x), scale = set1(1.f / (1 << 28)), minus = set1(-1.f / (1 << 28));
  const Vec bound = min(set1(9.1f), a), e = exp(add(bound, bound));  // tanh rounds to 1 there
  const Vec above = bit_or(fma(e, scale, minus), sign_of(x)), edge = set1(0.625f);
  const Vec below = select_less(a, edge, set1(1.f), fma(e, scale, scale));
  return div(select_less(a, edge, small, above), mul(below, add(set1(1.f), exp(bit_xor(set1(-0.f), y)))));
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
