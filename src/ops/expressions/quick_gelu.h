// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// Gelu by a logistic curve: x sigmoid(alpha x) (Hendrycks and Gimpel, 2016).
struct QuickGelu : Activation {
  static constexpr Parameters parameters{1, {{"alpha", 1.702f}}};
  template <class V>
  TENON_EXPR static V apply(V x, V alpha) {
    return scaled_sigmoid(x, alpha * x);
  }
};

}  // namespace tenon::expr
