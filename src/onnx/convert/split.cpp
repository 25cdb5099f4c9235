// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::split {
namespace {

// Up to opset 12 the sizes are an attribute (in opset 1 also an input); up to 17 equal parts need no count.
void convert(NodeImport& node) {
  if (node.opset < 13 && node.has_attribute("split")) {
    node.set_input(1, node.integers(node.integer_list("split")));
    node.drop({"split"});
  }
  if (!node.has(1) && !node.has_attribute("num_outputs"))
    node.attributes["num_outputs"] = static_cast<int64_t>(node.outputs());
  node.emit();
}
TENON_IMPORT(convert, "Split");

}  // namespace
}  // namespace tenon::onnx::split
