#include "backends/cpu/kernels/tactics.h"

#include <array>
#include <vector>

namespace tenon::cpu {

namespace {

auto collect(Isa isa) {
  return std::array{direct_tactic(isa),    gemv_tactic(isa),      winograd4_tactic(isa),
                    winograd2_tactic(isa), depthwise_tactic(isa), stem_tactic(isa)};
 }

}  // namespace

std::span<const ConvTactic> conv_tactics(Isa isa) {
  if (isa == Isa::amx) {
    static const std::vector<ConvTactic> amx = [] {
      const auto vectors = collect(Isa::avx512);
      std::vector<ConvTactic> all(vectors.begin(), vectors.end());
      all.push_back(brain_tactic());
      return all;
    }();
    return amx;
  }
  static const auto portable = collect(Isa::portable), avx2 = collect(Isa::avx2), avx512 = collect(Isa::avx512);
  switch (isa) {
    case Isa::avx512: return avx512;
    case Isa::avx2: return avx2;
    default: return portable;
  }
}

}  // namespace tenon::cpu
