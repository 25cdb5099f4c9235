// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Identity : Activation {
  static constexpr bool is_clamp = true;
  template <class V>
  TENON_EXPR static V apply(V x) {
    return x;
  }
};

}  // namespace tenon::expr
