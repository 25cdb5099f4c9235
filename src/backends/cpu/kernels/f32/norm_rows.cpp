// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/norm_rows.h"

namespace tenon::cpu {

NormRowsKernel norm_rows(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::norm_rows;
    case Isa::avx2: return avx2::norm_rows;
    default: return portable::norm_rows;
  }
}

}  // namespace tenon::cpu
