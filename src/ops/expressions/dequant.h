// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// The number that a byte stands for.
struct Dequant : Unary {
  static constexpr Parameters parameters{2, {{"scale", 1}, {"zero_point", 0}}};
  static constexpr bool is_exact = true;
  template <class V>
  TENON_EXPR static V apply(V x, V scale, V zero) {
    return (x - zero) * scale;
  }
};

}  // namespace tenon::expr
