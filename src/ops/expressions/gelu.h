// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// x / 2 (1 + erf(x / sqrt 2)) (Hendrycks and Gimpel, 2016).
struct Gelu : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    const V half = V(0.5) * x;
    return mul_add(half, erf(x * V(0.70710678118654752440)), half);
  }
};

}  // namespace tenon::expr
