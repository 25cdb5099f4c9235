// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::softmax {
namespace {

// Up to opset 12 the axis cuts the tensor into a matrix, whose rows are normalised.
void convert(NodeImport& node) {
  if (node.opset >= 13) return node.emit();
  const int64_t axis = node.integer("axis", 1);
  const std::optional<size_t> rank = node.rank(node.input(0));
  const bool last = axis == -1 || (rank && axis == static_cast<int64_t>(*rank) - 1);
  if (last) {
    node.attributes["axis"] = int64_t{-1};
    return node.emit();
  }
  if (node.inputs.empty()) node.fail("it has no input");
  const ir::ValueId flat = node.add("Flatten", {node.input(0)}, {{"axis", axis}});
  const ir::ValueId rows = node.add(node.op, {flat}, {{"axis", int64_t{1}}});
  const ir::ValueId shape = node.add("Shape", {node.input(0)});
  node.op = "Reshape";
  node.inputs = {rows, shape};
  node.attributes = {{"allowzero", int64_t{1}}};
  node.emit();
}
TENON_IMPORT(convert, "Softmax", "LogSoftmax", "Hardmax");

}  // namespace
}  // namespace tenon::onnx::softmax
