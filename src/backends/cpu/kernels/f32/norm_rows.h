// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// Rows of `count` elements one behind the other, each normalised by its own moments.
struct NormRows {
  int64_t count;
  float epsilon;
  bool centred;               // by mean and variance, else by the mean of the squares
  const float *scale, *bias;  // of one row; either may be null
};

/// The longest row, as its sums are floats.
constexpr int64_t norm_rows_longest = 1024;

/// dst may be src. The same bits on every instruction set, however rows are shared between workers.
using NormRowsKernel = void (*)(float* dst, const float* src, int64_t rows, const NormRows& norm);
NormRowsKernel norm_rows(Isa isa);

namespace portable {
void norm_rows(float* dst, const float* src, int64_t rows, const NormRows& norm);
}
namespace avx2 {
void norm_rows(float* dst, const float* src, int64_t rows, const NormRows& norm);
}
namespace avx512 {
void norm_rows(float* dst, const float* src, int64_t rows, const NormRows& norm);
}

}  // namespace tenon::cpu
