#include "backends/cpu/kernels/tactics.h"

#include <array>

namespace tenon::cpu {

namespace {

auto collect(Isa isa) {
  return std::array{direct_tactic(isa),    gemv_tactic(isa),      winograd4_tactic(isa),
                    winograd2_tactic(isa), depthwise_tactic(isa), stem_tactic(isa)};
 }

}  // namespace

std::span<const ConvTactic> conv_tactics(Isa isa) {
  static const auto portable = collect(Isa::portable), avx2 = collect(Isa::avx2), avx512 = collect(Isa::avx512);
  switch (vectors_of(isa)) {
    case Isa::avx512: return avx512;
    case Isa::avx2: return avx2;
    default: return portable;
  }
}

}  // namespace tenon::cpu
