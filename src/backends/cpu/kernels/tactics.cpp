// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/tactics.h"

#include <vector>

namespace tenon::cpu {

namespace {

std::vector<ConvTactic> collect(Isa isa) {
  std::vector<ConvTactic> all{direct_tactic(isa),          gemv_tactic(isa),           winograd4_tactic(isa),
                              winograd2_tactic(isa),       depthwise_tactic(isa),      stem_tactic(isa),
                              gemv_f16_tactic(isa),        gemv_bf16_tactic(isa),      winograd4_taps_tactic(isa),
                              winograd2_taps_tactic(isa),  depthwise_rows_tactic(isa), winograd_5x5_tactic(isa),
                              winograd_frames_tactic(isa), strassen_tactic(isa)};
  if (has_bf16_dot(isa)) all.push_back(bf16_dots_tactic());
  if (isa == Isa::amx) all.push_back(bf16_tiles_tactic());
  return all;
}

}  // namespace

std::span<const ConvTactic> conv_tactics(Isa isa) {
  static const auto portable = collect(Isa::portable), fused = collect(Isa::fused), avx2 = collect(Isa::avx2),
                    avx512 = collect(Isa::avx512), amx = collect(Isa::amx);
  switch (isa) {
    case Isa::amx: return amx;
    case Isa::avx512: return avx512;
    case Isa::avx2: return avx2;
    case Isa::fused: return fused;
    default: return portable;
  }
}

}  // namespace tenon::cpu
