// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// x tanh(log(1 + e^x)) (Misra, 2019), as x n / (n + 2) with n = e^x (e^x + 2). Above 20 the factor rounds to 1.
struct Mish : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    const V e = exp(min(V(20), x)), n = e * (e + V(2));
    return x * (n / (n + V(2)));
  }
};

}  // namespace tenon::expr
