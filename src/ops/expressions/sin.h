// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Sin : Unary {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return sin(x);
  }
};

}  // namespace tenon::expr
