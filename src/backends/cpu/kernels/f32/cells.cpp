// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/cells.h"

#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

const CellOps& cell_ops(Isa isa) {
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512::cell_ops;
    case Isa::avx2: return avx2::cell_ops;
    case Isa::fused: return fused::cell_ops;
    default: return portable::cell_ops;
  }
}

int64_t packed_cell_floats(const CellWeights& form, int lanes) {
  return align_up(form.hidden, lanes) * (form.inputs + form.hidden) * cell_gates(form.cell);
}

void pack_cells(const CellWeights& form, int lanes, const float* w, const float* r, float* packed) {
  const int64_t gates = cell_gates(form.cell);
  for (int64_t first = 0; first < form.hidden; first += lanes) {
    const int64_t used = std::min<int64_t>(lanes, form.hidden - first);
    const auto part = [&](const float* from, int64_t length) {
      for (int64_t k = 0; k < length; ++k)
        for (int64_t gate = 0; gate < gates; ++gate, packed += lanes)
          for (int64_t lane = 0; lane < lanes; ++lane)
            packed[lane] = lane < used ? from[(gate * form.hidden + first + lane) * length + k] : 0.f;
    };
    part(w, form.inputs);
    part(r, form.hidden);
  }
}

}  // namespace tenon::cpu
