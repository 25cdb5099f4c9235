// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/loops.h"

namespace tenon::cpu {

const Loops& loops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::loop_table;
    case Isa::avx2: return avx2::loop_table;
    case Isa::fused: return fused::loop_table;
    default: return portable::loop_table;
  }
}

}  // namespace tenon::cpu
