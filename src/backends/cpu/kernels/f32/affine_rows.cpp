// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/affine_rows.h"

namespace tenon::cpu {

AffineRowsKernel affine_rows(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::affine_rows;
    case Isa::avx2: return avx2::affine_rows;
    default: return portable::affine_rows;
  }
}

}  // namespace tenon::cpu
