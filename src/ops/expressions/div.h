// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Div : Binary {
  template <class V>
  TENON_EXPR static V apply(V a, V b) {
    return a / b;
  }
};

}  // namespace tenon::expr
