// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// The number that stands for x once it is quantised to 16 bits, the least of which is `low` steps of `scale`: what
/// DequantizeLinear gives of what QuantizeLinear does.
struct FakeQuantize16 : Activation {
  static constexpr Parameters parameters{2, {{"scale", 1}, {"low", -32768}}};
  static constexpr bool is_exact = true;
  template <class V>
  TENON_EXPR static V apply(V x, V scale, V low) {
    return steps_within(x, scale, low, low + V(65535)) * scale;
  }
};

}  // namespace tenon::expr
