// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// x clip(x + 3, 0, 6) / 6 (Howard et al., 2019).
struct HardSwish : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return x * (min(V(6), max(V(0), x + V(3))) * V(1.0 / 6));
  }
};

}  // namespace tenon::expr
