// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/nms.h"

namespace tenon::cpu {

const NmsOps& nms_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::nms_table;
    case Isa::avx2: return avx2::nms_table;
    default: return portable::nms_table;
  }
}

}  // namespace tenon::cpu
