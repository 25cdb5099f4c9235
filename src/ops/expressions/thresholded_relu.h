// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct ThresholdedRelu : Unary {
  static constexpr Parameters parameters{1, {{"alpha", 1}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha) {
    return select(x > alpha, x, V(0));
  }
};

}  // namespace tenon::expr
