// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/largest.h"

namespace tenon::cpu {

const LargestOps& largest_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::largest_table;
    case Isa::avx2: return avx2::largest_table;
    default: return portable::largest_table;
  }
}

}  // namespace tenon::cpu
