// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// log(1 + e^x).
struct Softplus : Unary {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return max(V(0), x) + log1p_exp(-abs(x));
  }
};

}  // namespace tenon::expr
