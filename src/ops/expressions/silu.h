// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/expression_math.h"

namespace tenon::expr {

/// x sigmoid(x); not of ONNX.
struct Silu : Activation {
  template <class V>
  TENON_EXPR static V apply(V x) {
    return scaled_sigmoid(x, x);
  }
};

}  // namespace tenon::expr
