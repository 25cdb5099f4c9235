// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/correlate.h"

namespace tenon::cpu {

Correlate correlate(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::correlate;
    case Isa::avx2: return avx2::correlate;
    default: return portable::correlate;
  }
}

}  // namespace tenon::cpu
