// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// The byte that stands for a number: rounded to nearest even, held within 0 and 255; that of 0 where x is NaN.
struct Quant : Unary {
  static constexpr Parameters parameters{2, {{"scale", 1}, {"zero_point", 0}}};
  static constexpr bool is_exact = true;
  template <class V>
  TENON_EXPR static V apply(V x, V scale, V zero) {
    const V most = V(1e9), steps = min(most, max(-most, x / scale));
    const V known = select(abs(steps) < V(2e9), steps, V(0));
    return min(V(255), max(V(0), round(known) + zero));
  }
};

}  // namespace tenon::expr
