// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// NaN stays, -0 becomes 0.
struct Sign : Unary {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return select(x < V(0), V(-1), select(x > V(0), V(1), x + V(0)));
  }
};

}  // namespace tenon::expr
