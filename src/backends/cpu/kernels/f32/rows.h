// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// Loops over contiguous rows of floats, the building blocks of elementwise steps, pools and reductions.
struct RowOps {
  // dst[i] = f(a[i * a_step], b[i * b_step]), an expression of two operands; steps are 0 (one value for the row) or 1.
  void (*binary)(expr::Id f, float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count);
  // dst[i] = f(src[i]) for an expression of one operand and its parameters.
  void (*unary)(expr::Id f, float alpha, float beta, float* dst, const float* src, int64_t count);
  // dst[i] = table[k], k of 65536: how many steps of `scale` above `low` of them src[i] is, rounded (FakeQuantize16).
  void (*look_up)(float* dst, const float* src, float scale, float low, const float* table, int64_t count);
  // dst[i] = tanh(a[i * a_step]) * sigmoid(b[i * b_step])
  void (*gate)(float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count);
  // dst = scale * dst
  void (*scale)(float* dst, float factor, int64_t count);
  // dst = a * wa + b * wb
  void (*blend)(float* dst, const float* a, float wa, const float* b, float wb, int64_t count);
  // dst = the largest (or the sum) of several rows, element by element, in their order; dst is the first with `more`.
  void (*fold)(bool largest, float* dst, const float* const* rows, int64_t many, int64_t count, bool more);
  // The same of the windows of pixels side by side: taps lie `offsets` from where each window begins, and windows begin
  // `src_step` apart; sums are multiplied by `factor`. The taps of a window pass by in their order.
  void (*windows)(bool largest, float factor, float* dst, int64_t dst_step, const float* src, int64_t src_step,
                  const int64_t* offsets, int64_t taps, int64_t channels, int64_t pixels);
  // exp(src - max) / sum over each row; rows begin `pitch` floats apart
  void (*softmax)(float* dst, const float* src, int64_t rows, int64_t pitch, int64_t count);
  // The same of lines side by side: `count` elements each, `pitch` floats from one to the next; dst is not src.
  void (*softmax_lines)(float* dst, const float* src, int64_t lines, int64_t pitch, int64_t count);
  // dst[r] = the sum of products of a row and x; rows lie one behind the other
  void (*dots)(float* dst, const float* src, const float* x, int64_t rows, int64_t count);
  // dst = the sum of rows, which begin `pitch` floats apart, each times its weight
  void (*weigh)(float* dst, const float* src, int64_t pitch, const float* weights, int64_t rows, int64_t count);
  // dst = 1 where src is not 0, else 0
  void (*from_bool)(float* dst, const uint8_t* src, int64_t count);
};

const RowOps& row_ops(Isa isa);
namespace portable { extern const RowOps row_ops; }
namespace fused { extern const RowOps row_ops; }
namespace avx2 { extern const RowOps row_ops; }
namespace avx512 { extern const RowOps row_ops; }

}  // namespace tenon::cpu
