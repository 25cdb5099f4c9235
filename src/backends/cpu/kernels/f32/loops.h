// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

enum class Fold : uint8_t { sum, product, max, min };
enum class Before : uint8_t { none, absolute, square };  // applied to each element first
enum class Compare : uint8_t { less, less_equal, greater, greater_equal, equal };

struct Moments {
  double mean, variance;
};

// Loops over contiguous elements for what is neither a product nor elementwise arithmetic. All allocate nothing, and
// none depends on how many workers share the rows.
struct Loops {
  // dst = sum over k of weights[k] * src[offsets[k] + i]
  void (*weighted)(float* dst, const float* src, const int64_t* offsets, const float* weights, int64_t taps,
                   int64_t count);
  // The fold of a row; sums are carried in double every 1024 elements. NaN passes through max and min.
  float (*fold)(Fold fold, Before before, const float* src, int64_t count);
  // The smallest and the largest element of a row; both NaN where one is.
  void (*ends)(const float* src, int64_t count, float* low, float* high);
  // dst = fold(dst, before(src))
  void (*fold_into)(Fold fold, Before before, float* dst, const float* src, int64_t count);
  // Mean and variance of a row, in two passes.
  Moments (*moments)(const float* src, int64_t count);
  // Of each column of a matrix of at most 1024 rows: the mean, and the sum of squares around it.
  void (*column_moments)(float* mean, float* squares, const float* src, int64_t rows, int64_t columns);
  // dst = (src - mean) * factor * scale + bias; scale and bias may be null
  void (*normalise)(float* dst, const float* src, float mean, float factor, const float* scale, const float* bias,
                    int64_t count);
  // dst = src * scale + bias, elementwise or (steps 0) with one scale and bias
  void (*affine)(float* dst, const float* src, const float* scale, const float* bias, int step, int64_t count);
  // dst = clamp(round(src / scale) + zero), to nearest even; NaN gives zero
  void (*quantise_u8)(uint8_t* dst, const float* src, float scale, int32_t zero, int64_t count);
  void (*quantise_i8)(int8_t* dst, const float* src, float scale, int32_t zero, int64_t count);
  void (*quantise_u16)(uint16_t* dst, const float* src, float scale, int32_t zero, int64_t count);
  void (*quantise_i16)(int16_t* dst, const float* src, float scale, int32_t zero, int64_t count);
  // The same by a scale and a zero of each number.
  void (*quantise_each)(uint8_t* dst, const float* src, const float* scales, const int32_t* zeros, int64_t count);
  // As quantise_u8 for up to four planes of floats, `plane` apart: their bytes side by side, pixels `step` bytes apart.
  void (*quantise_pixels)(uint8_t* dst, int64_t step, const float* src, int64_t plane, int planes, float scale,
                          int32_t zero, int64_t count);
  // dst[i] = the largest of sources[k][i], 0 where there is no source; dst is none of them
  void (*largest_bytes)(uint8_t* dst, const uint8_t* const* sources, int64_t count, int64_t n);
  // dst = (src - zero) * scale, each of its own
  void (*dequantise_each)(float* dst, const uint8_t* src, const float* scales, const int32_t* zeros, int64_t count);
  // dst = (src - zero) * scale
  void (*dequantise_u8)(float* dst, const uint8_t* src, float scale, int32_t zero, int64_t count);
  void (*dequantise_i8)(float* dst, const int8_t* src, float scale, int32_t zero, int64_t count);
  void (*dequantise_u16)(float* dst, const uint16_t* src, float scale, int32_t zero, int64_t count);
  void (*dequantise_i16)(float* dst, const int16_t* src, float scale, int32_t zero, int64_t count);
  void (*dequantise_i32)(float* dst, const int32_t* src, float scale, int32_t zero, int64_t count);
  void (*to_half)(uint16_t* dst, const float* src, int64_t count);
  void (*from_half)(float* dst, const uint16_t* src, int64_t count);
  // dst[i] = a[i * a_step] op b[i * b_step]; steps are 0 or 1
  void (*compare)(Compare op, uint8_t* dst, const float* a, int a_step, const float* b, int b_step, int64_t count);
  // dst[i] = choice[i * steps[0]] ? a[i * steps[1]] : b[i * steps[2]], elements of 4 bytes
  void (*select)(uint32_t* dst, const uint8_t* choice, const uint32_t* a, const uint32_t* b, const int* steps,
                 int64_t count);
  // best and place of each element against src, whose place is `at`; the first NaN wins over all. `last`: of equal ones
  // the later wins.
  void (*arg_into)(bool max, bool last, float* best, int32_t* place, const float* src, int32_t at, int64_t count);
  // dst[c * rows + r] = src[r * pitch + c] for elements of 4 bytes; dst rows are dst_pitch apart
  void (*turn)(uint32_t* dst, int64_t dst_pitch, const uint32_t* src, int64_t src_pitch, int64_t rows, int64_t columns);
};

const Loops& loops(Isa isa);
namespace portable { extern const Loops loop_table; }
namespace fused { extern const Loops loop_table; }
namespace avx2 { extern const Loops loop_table; }
namespace avx512 { extern const Loops loop_table; }

}  // namespace tenon::cpu
