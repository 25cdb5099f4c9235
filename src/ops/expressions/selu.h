// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Selu : Unary {
  static constexpr Parameters parameters{
      2, {{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha, V gamma) {
    return gamma * select(x > V(0), x, alpha * expm1_negative(x));
  }
};

}  // namespace tenon::expr
