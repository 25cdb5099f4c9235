// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/epilogue.h"

#include <tenon/error.h>

#include <algorithm>

#include "backends/cpu/isa.h"
#include "base/knobs.h"
#include "ops/epilogue.h"

namespace tenon::cpu {

Epilogue epilogue_of(const ir::Node& node) {
  const ops::Epilogue epilogue = ops::epilogue_of(node);
  return {epilogue.activation, epilogue.alpha, epilogue.beta, static_cast<Residual>(epilogue.residual),
          epilogue.slopes.empty() ? nullptr : epilogue.slopes.data()};
}

std::vector<float> repeated(const float* list, int64_t count, int64_t times) {
  std::vector<float> all;
  for (int64_t at = 0; list && at < times; ++at) all.insert(all.end(), list, list + count);
  return all;
}

Isa active_isa() {
  static const Isa isa = [] {
    Isa best = detect_isa();
    if (const auto limit = knobs::value(knobs::isa)) {
      Isa wanted = best;
      if (!parse_isa(*limit, wanted))
        throw Error(Code::usage, "TENON_ISA is \"" + *limit + "\"", {.hint = "use portable, avx2, avx512 or amx"});
      best = std::min(best, wanted);
    }
    return best;
  }();
  return isa;
}

Isa isa_for(const backends::Problem& problem) {
  const Isa isa = active_isa();
  return problem.fused && isa == Isa::portable ? Isa::fused : isa;
}

}  // namespace tenon::cpu
