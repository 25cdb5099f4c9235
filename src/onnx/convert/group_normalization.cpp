// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::group_normalization {
namespace {

// Up to opset 20 scale and bias are per group; each is repeated for the channels of its group.
void convert(NodeImport& node) {
  if (node.opset < 21) {
    const int64_t groups = node.integer("num_groups", 0);
    if (groups < 1) node.fail("attribute 'num_groups' is missing or below 1");
    if (!node.has(0) || !node.has(1) || !node.has(2)) node.fail("it needs three inputs");
    const ir::ValueId channels = node.add("Shape", {node.input(0)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
    const ir::ValueId count = node.integers({groups});
    const ir::ValueId each = node.add("Div", {channels, count});
    const ir::ValueId target = node.add("Concat", {count, each}, {{"axis", int64_t{0}}});
    for (size_t input : {1, 2}) {
      const ir::ValueId column = node.add("Unsqueeze", {node.input(input), node.integers({1})});
      const ir::ValueId wide = node.add("Expand", {column, target});
      node.inputs[input] = node.add("Reshape", {wide, channels});
    }
  }
  node.emit();
}
TENON_IMPORT(convert, "GroupNormalization");

}  // namespace
}  // namespace tenon::onnx::group_normalization
