// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::axes {
namespace {

// Up to opset 12 the axes are an attribute.
void convert(NodeImport& node) {
  if (node.has_attribute("axes")) {
    const std::vector<int64_t> axes = node.integer_list("axes");
    node.drop({"axes"});
    node.set_input(1, node.integers(axes));
  }
  node.emit();
}
TENON_IMPORT(convert, "Squeeze", "Unsqueeze", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
             "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare");

}  // namespace
}  // namespace tenon::onnx::axes
