// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::clip {
namespace {

// Up to opset 10 the bounds are attributes.
void convert(NodeImport& node) {
  if (node.opset < 11) {
    const bool low = node.has_attribute("min"), high = node.has_attribute("max");
    if (low) node.set_input(1, node.scalar_like(node.real("min", 0), node.input(0)));
    if (high) node.set_input(2, node.scalar_like(node.real("max", 0), node.input(0)));
    node.drop({"min", "max", "consumed_inputs"});
  }
  node.emit();
}
TENON_IMPORT(convert, "Clip");

}  // namespace
}  // namespace tenon::onnx::clip
