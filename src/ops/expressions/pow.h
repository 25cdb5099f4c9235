// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Pow : Binary {
  template <class V>
  TENON_EXPR static V apply(V a, V b) {
    return pow(a, b);
  }
};

}  // namespace tenon::expr
