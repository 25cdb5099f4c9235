// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

// Numbers that a value is multiplied by, or that are added to it: floats, or bytes of a scale and a zero point.
struct ByteAffineOperand {
  enum class Op : uint8_t { first, mul, add, sub, max, relu } step;
  bool bytes;
  float scale;
  int32_t zero;
};

// The first operand and what the others make of it, one after the other, each step rounded as a float; then bytes of
// `scale` and `zero`, as QuantizeLinear rounds.
struct ByteAffine {
  static constexpr int most = 6;
  ByteAffineOperand operands[most];
  int count;
  float scale;
  int32_t zero;
};

// `sources` are those of the operands, `n` elements side by side; of a relu nothing is read.
using RunByteAffine = void (*)(const ByteAffine&, const void* const* sources, uint8_t* to, int64_t n);
namespace portable {
extern const RunByteAffine byte_affine;
}
namespace avx2 {
extern const RunByteAffine byte_affine;
}
namespace avx512 {
extern const RunByteAffine byte_affine;
}

RunByteAffine byte_affine(Isa isa);

}  // namespace tenon::cpu
