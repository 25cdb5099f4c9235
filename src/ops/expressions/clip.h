// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// Within [low, high]; NaN stays.
struct Clip : Activation {
  static constexpr Parameters parameters{2, {{"min", -infinity}, {"max", infinity}}};
  static constexpr bool is_clamp = true;
  template <class V>
  TENON_EXPR static V apply(V x, V low, V high) {
    return min(high, max(low, x));
  }
};

}  // namespace tenon::expr
