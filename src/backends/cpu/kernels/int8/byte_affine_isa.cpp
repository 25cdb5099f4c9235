// SPDX-License-Identifier: Apache-2.0
// Products and sums of bytes and floats, back to bytes, in registers throughout.
#include "backends/cpu/kernels/int8/byte_affine.h"

#include "backends/cpu/kernels/int8/quantise_near.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

using Op = ByteAffineOperand::Op;

constexpr int kVectors = 4;
constexpr int64_t kTogether = kVectors * kLanes;

TENON_INLINE void read_operand(const ByteAffineOperand& o, const void* source, int64_t at, Vec (&to)[kVectors]) {
  if (o.bytes) {
    const auto* const bytes = static_cast<const uint8_t*>(source) + at;
    const IVec zero_point = iset1(o.zero);
    const Vec scale = set1(o.scale);
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) to[i] = mul(to_float(isub(widen_u8(bytes + i * kLanes), zero_point)), scale);
  } else {
    const auto* const numbers = static_cast<const float*>(source) + at;
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) to[i] = load(numbers + i * kLanes);
  }
}

TENON_INLINE IVec bytes_of(const ByteAffine& affine, const void* const* sources, int64_t at,
                           const ByteQuantiser& quantise) {
  Vec x[kVectors];
  read_operand(affine.operands[0], sources[0], at, x);
  for (int k = 1; k < affine.count; ++k) {
    const ByteAffineOperand& o = affine.operands[k];
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kVectors; ++i)
    if (o.step == Op::relu) {
      TENON_EACH x[i] = max(zero(), x[i]);
      continue;
    }
    Vec y[kVectors];
    read_operand(o, sources[k], at, y);
    if (o.step == Op::mul) TENON_EACH x[i] = mul(x[i], y[i]);
    else if (o.step == Op::add) TENON_EACH x[i] = add(x[i], y[i]);
    else if (o.step == Op::sub) TENON_EACH x[i] = sub(x[i], y[i]);
    else TENON_EACH x[i] = nan_or(x[i], max(x[i], y[i]));
#undef TENON_EACH
  }
  return quantise(x);
}

// The elements from `at` on where fewer than kTogether are left.
__attribute__((noinline)) void run_few(const ByteAffine& affine, const void* const* sources, uint8_t* to, int64_t n,
                                       const ByteQuantiser& quantise) {
  alignas(64) float copies[ByteAffine::most][kTogether] = {};
  const void* rest[ByteAffine::most] = {};
  for (int k = 0; k < affine.count; ++k) {
    const ByteAffineOperand& o = affine.operands[k];
    if (o.step == Op::relu) continue;
    rest[k] = copies[k];
    __builtin_memcpy(copies[k], sources[k], static_cast<size_t>(n) * (o.bytes ? 1 : sizeof(float)));
  }
  alignas(64) uint8_t bytes[kTogether];
  istore(bytes, bytes_of(affine, rest, 0, quantise));
  __builtin_memcpy(to, bytes, static_cast<size_t>(n));
}

void run(const ByteAffine& affine, const void* const* sources, uint8_t* to, int64_t n) {
  const ByteQuantiser quantise(affine.scale, affine.zero);
  if (n < kTogether) return run_few(affine, sources, to, n, quantise);
  // The last vector overlaps the one before. It is found first, as the first operand may lie where the result does.
  const IVec last = bytes_of(affine, sources, n - kTogether, quantise);
  for (int64_t at = 0; at + kTogether < n; at += kTogether) istore(to + at, bytes_of(affine, sources, at, quantise));
  istore(to + n - kTogether, last);
}

}  // namespace

extern const RunByteAffine byte_affine;
const RunByteAffine byte_affine = run;

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
