// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// A plane under a window that moves by one along rows; nothing lies outside.
struct Correlation {
  const float *src, *weights;
  float* dst;
  int64_t src_pitch, dst_pitch, rows, columns;  // of the result
  int64_t window_rows, window_columns, stride, row_dilation, column_dilation;
  float bias;
};

using Correlate = void (*)(const Correlation& correlation);
Correlate correlate(Isa isa);

namespace portable {
void correlate(const Correlation& correlation);
}
namespace avx2 {
void correlate(const Correlation& correlation);
}
namespace avx512 {
void correlate(const Correlation& correlation);
}

}  // namespace tenon::cpu
