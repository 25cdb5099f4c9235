#include "backends/cpu/epilogue.h"

#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "backends/cpu/isa.h"
#include "base/knobs.h"

namespace tenon::cpu {

std::optional<Epilogue> epilogue_of(const ir::Node& node) {
  static constexpr std::pair<std::string_view, Activation> names[] = {
      {"", Activation::none},          {"relu", Activation::relu},           {"clip", Activation::clip},
      {"silu", Activation::silu},      {"sigmoid", Activation::sigmoid},     {"hardswish", Activation::hard_swish},
      {"hardsigmoid", Activation::hard_sigmoid}, {"leakyrelu", Activation::leaky_relu}, {"tanh", Activation::tanh},
      {"gelu", Activation::gelu},      {"gelutanh", Activation::gelu_tanh},  {"mish", Activation::mish},
      {"elu", Activation::elu}};
  const std::string activation = node.text("activation", "");
  Epilogue epilogue;
  const auto* found =
      std::find_if(std::begin(names), std::end(names), [&](const auto& entry) { return entry.first == activation; });
  if (found == std::end(names)) return std::nullopt;
  epilogue.act = found->second;
  if (epilogue.act == Activation::clip) epilogue.alpha = -INFINITY, epilogue.beta = INFINITY;
  if (epilogue.act == Activation::leaky_relu) epilogue.alpha = 0.01f;
  if (epilogue.act == Activation::elu) epilogue.alpha = 1;
  if (epilogue.act == Activation::hard_sigmoid) epilogue.alpha = 0.2f, epilogue.beta = 0.5f;
  epilogue.alpha = node.real("alpha", epilogue.alpha);
  epilogue.beta = node.real("beta", epilogue.beta);
  const std::string residual = node.text("residual", "");
  if (residual == "before") epilogue.residual = Residual::before;
  else if (residual == "after") epilogue.residual = Residual::after;
  else if (!residual.empty()) return std::nullopt;
  return epilogue;
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
