// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/block_weights.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/support.h"
#include "ops/half.h"
#include "ops/weight_only.h"

namespace tenon::cpu {

const BlockWeightOps& block_weight_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::block_weight_ops;
    case Isa::avx2: return avx2::block_weight_ops;
    case Isa::fused: return fused::block_weight_ops;
    default: return portable::block_weight_ops;
  }
}

size_t packed_bytes(const BlockWeights& w, int columns) {
  return static_cast<size_t>(ceil_div(w.n, columns) * panel_bytes(w, columns));
}

void pack_blocks(const BlockWeights& w, int columns, const GivenBlocks& given, std::byte* packed) {
  namespace format = ops::weight_only;
  const int64_t blocks = block_count(w), bytes = format::block_bytes(w.block, w.bits);
  const int middle = format::middle(w.bits);
  std::memset(packed, 0, packed_bytes(w, columns));
  for (int64_t panel = 0; panel < ceil_div(w.n, columns); ++panel)
    for (int64_t at = 0; at < blocks; ++at, packed += packed_block_bytes(w, columns)) {
      std::byte* const zeros = packed + columns * (w.f16_scales ? 2 : 4);
      std::byte* const integers = zeros + (w.has_zeros ? columns : 0);
      const int64_t steps = std::min(w.block, w.k - at * w.block);
      for (int64_t column = 0; column < std::min<int64_t>(columns, w.n - panel * columns); ++column) {
        const int64_t from = (panel * columns + column) * blocks + at;
        if (w.f16_scales) {
          const uint16_t scale = ops::f16_bits(given.scales[from]);
          std::memcpy(packed + column * 2, &scale, sizeof scale);
        } else {
          std::memcpy(packed + column * 4, &given.scales[from], sizeof(float));
        }
        if (w.has_zeros) zeros[column] = static_cast<std::byte>(given.zeros[from] - middle);
        for (int64_t step = 0; step < steps; ++step) {
          const int number = format::integer(given.integers + from * bytes, step, w.bits);
          if (w.bits == 8) integers[step * columns + column] = static_cast<std::byte>(number - middle);
          else
            integers[(step / 8 * columns + column) * 4 + step % 4] |=
                static_cast<std::byte>(number << step % 8 / 4 * 4);
        }
      }
    }
}

}  // namespace tenon::cpu
