// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::slice {
namespace {

// Up to opset 9 starts, ends and axes are attributes.
void convert(NodeImport& node) {
  if (node.opset < 10) {
    const std::vector<int64_t> starts = node.integer_list("starts"), ends = node.integer_list("ends");
    if (starts.size() != ends.size()) node.fail("starts and ends differ in length");
    node.set_input(1, node.integers(starts));
    node.set_input(2, node.integers(ends));
    if (node.has_attribute("axes")) node.set_input(3, node.integers(node.integer_list("axes")));
    node.drop({"starts", "ends", "axes"});
  }
  node.emit();
}
TENON_IMPORT(convert, "Slice");

}  // namespace
}  // namespace tenon::onnx::slice
