// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise_op.h"
#include "ops/expression_list.h"

namespace tenon::ops::quick_gelu {
namespace {

// As CLIP has it: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QuickGelu
const Registrar registered(elementwise_op<expr::QuickGelu>("com.microsoft:QuickGelu", {attr::real("alpha")},
                                                           unary_traits | Trait::int8 | Trait::half));

}  // namespace
}  // namespace tenon::ops::quick_gelu
