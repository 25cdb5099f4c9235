// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::topk {
namespace {

// Up to opset 9 the count is an attribute.
void convert(NodeImport& node) {
  if (node.opset < 10) {
    node.set_input(1, node.integers({node.integer("k", 1)}));
    node.drop({"k"});
  }
  node.emit();
}
TENON_IMPORT(convert, "TopK");

}  // namespace
}  // namespace tenon::onnx::topk
