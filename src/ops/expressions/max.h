// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

struct Max : Binary {
  static constexpr bool is_epilogue = true;  // behind convolutions, a bound for each channel
  template <class V>
  TENON_EXPR static V apply(V a, V b) {
    return maximum(a, b);
  }
};

}  // namespace tenon::expr
