// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise_op.h"
#include "ops/expression_list.h"

namespace tenon::ops::fake_quantize16 {
namespace {

/// Internal: QuantizeLinear to 16 bits and DequantizeLinear as one step.
const Registrar registered(elementwise_op<expr::FakeQuantize16>("tenon:FakeQuantize16",
                                                                {attr::real("scale").required().internal(),
                                                                 attr::real("low").required().internal()}));

}  // namespace
}  // namespace tenon::ops::fake_quantize16
