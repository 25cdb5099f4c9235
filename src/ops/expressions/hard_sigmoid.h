// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct HardSigmoid : Activation {
  static constexpr Parameters parameters{2, {{"alpha", 0.2f}, {"beta", 0.5f}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha, V beta) {
    return min(V(1), max(V(0), mul_add(x, alpha, beta)));
  }
};

}  // namespace tenon::expr
