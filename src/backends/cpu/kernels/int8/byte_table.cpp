// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_table.h"

namespace tenon::cpu {

ByteTable byte_table(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return has_byte_permutes(isa) ? avx512::byte_table_permuted : avx512::byte_table;
    case Isa::avx2: return avx2::byte_table;
    default: return portable::byte_table;
  }
}

}  // namespace tenon::cpu
