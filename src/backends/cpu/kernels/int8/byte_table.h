// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

// `lines` of `width` bytes each, pitches apart; `to` may be `from`.
struct ByteLines {
  uint8_t* to;
  int64_t to_pitch;
  const uint8_t* from;
  int64_t from_pitch, lines, width;
};

// to[i] = table[from[i]], of 256 bytes.
using ByteTable = void (*)(const ByteLines&, const uint8_t* table);
namespace portable {
extern const ByteTable byte_table;
}
namespace avx2 {
extern const ByteTable byte_table;
}
namespace avx512 {
extern const ByteTable byte_table, byte_table_permuted;
}

ByteTable byte_table(Isa isa);

}  // namespace tenon::cpu
