// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Swish : Activation {
  static constexpr Parameters parameters{1, {{"alpha", 1}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha) {
    return scaled_sigmoid(x, alpha * x);
  }
};

}  // namespace tenon::expr
