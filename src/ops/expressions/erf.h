// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Erf : Unary {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return erf(x);
  }
};

}  // namespace tenon::expr
