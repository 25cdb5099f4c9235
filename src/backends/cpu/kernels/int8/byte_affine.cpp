// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_affine.h"

namespace tenon::cpu {

RunByteAffine byte_affine(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::byte_affine;
    case Isa::avx2: return avx2::byte_affine;
    default: return portable::byte_affine;
  }
}

}  // namespace tenon::cpu
