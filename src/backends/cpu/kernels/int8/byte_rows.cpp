// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_rows.h"

#include <algorithm>
#include <cstring>

namespace tenon::cpu {

const ByteRowOps& byte_row_ops(Isa isa, bool dot) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return dot ? avx512::byte_row_dots : avx512::byte_row_ops;
    case Isa::avx2: return dot ? avx2::byte_row_dots : avx2::byte_row_ops;
    default: return portable::byte_row_ops;
  }
}

void pack_byte_rows(const ByteRowWeights& w, int columns, const uint8_t* bytes, const uint8_t* zeros,
                    const float* scales, std::byte* packed) {
  for (int64_t first = 0; first < w.n; first += columns, packed += byte_panel_bytes(w, columns)) {
    std::byte* const places = packed + columns * 8;
    for (int64_t column = 0; column < std::min<int64_t>(columns, w.n - first); ++column) {
      const int32_t zero = zeros[first + column];
      std::memcpy(packed + column * 4, &scales[first + column], sizeof(float));
      std::memcpy(packed + (columns + column) * 4, &zero, sizeof zero);
      for (int64_t at = 0; at < w.k; ++at)
        places[(at / 4 * columns + column) * 4 + at % 4] = static_cast<std::byte>(bytes[(first + column) * w.k + at]);
    }
  }
}

}  // namespace tenon::cpu
