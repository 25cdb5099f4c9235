// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::pad {
namespace {

// Up to opset 10 amounts and value are attributes; opset 1 calls the amounts "paddings".
void convert(NodeImport& node) {
  if (node.opset < 11) {
    const char* name = node.opset < 2 ? "paddings" : "pads";
    if (!node.has_attribute(name)) node.fail(std::string("attribute '") + name + "' is missing");
    node.set_input(1, node.integers(node.integer_list(name)));
    if (node.real("value", 0) != 0) node.set_input(2, node.scalar_like(node.real("value", 0), node.input(0)));
    node.drop({"pads", "paddings", "value"});
  }
  node.emit();
}
TENON_IMPORT(convert, "Pad");

}  // namespace
}  // namespace tenon::onnx::pad
