// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// Rows at a pitch; scale and shift have an element for each column.
struct AffineRows {
  float* dst;
  const float* src;
  const float *scale, *shift;
  int64_t dst_pitch, src_pitch, rows, columns;
  bool relu;
};

/// dst = src * scale + shift, in two roundings, or 0 where that is less and `relu`. dst may be src.
using AffineRowsKernel = void (*)(const AffineRows& rows);
AffineRowsKernel affine_rows(Isa isa);

namespace portable {
void affine_rows(const AffineRows& rows);
}
namespace avx2 {
void affine_rows(const AffineRows& rows);
}
namespace avx512 {
void affine_rows(const AffineRows& rows);
}

}  // namespace tenon::cpu
