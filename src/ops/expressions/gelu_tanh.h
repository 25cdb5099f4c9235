// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// Gelu by tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct GeluTanh : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    const V half = V(0.5) * x;
    const V inner = x * mul_add(x * x, V(0.0356774081363001254), V(0.79788456080286535588));
    return mul_add(half, tanh(inner), half);
  }
};

}  // namespace tenon::expr
