// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu {

const RowOps& row_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::row_ops;
    case Isa::avx2: return avx2::row_ops;
    case Isa::fused: return fused::row_ops;
    default: return portable::row_ops;
  }
}

}  // namespace tenon::cpu
