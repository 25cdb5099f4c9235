// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Sigmoid : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return scaled_sigmoid(V(1), x);
  }
};

}  // namespace tenon::expr
