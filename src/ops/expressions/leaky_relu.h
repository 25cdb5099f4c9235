// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct LeakyRelu : Activation {
  static constexpr Parameters parameters{1, {{"alpha", 0.01f}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha) {
    return select(x < V(0), x * alpha, x);
  }
};

}  // namespace tenon::expr
