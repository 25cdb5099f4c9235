// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct PRelu : Binary {
  static constexpr bool is_epilogue = true;
  template <class V>
  TENON_EXPR static V apply(V x, V slope) {
    return select(x < V(0), x * slope, x);
  }
};

}  // namespace tenon::expr
