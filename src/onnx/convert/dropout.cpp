// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::dropout {
namespace {

bool may_train(NodeImport& node) {
  if (!node.has(2)) return false;
  const Tensor* mode = node.graph().constant(node.input(2));
  return !mode || mode->dtype() != DType::boolean || mode->elements() != 1 || *mode->data<bool>();
}

// Outside training the data passes unchanged, and the mask is all true.
void convert(NodeImport& node) {
  if (node.opset >= 12 && may_train(node)) {
    node.emit();
    return;
  }
  if (node.inputs.empty()) node.fail("it has no input");
  if (node.wants(1)) {
    const bool yes = true;
    const ir::ValueId shape = node.add("Shape", {node.input(0)});
    const Tensor value = Tensor::of<bool>(DType::boolean, Dims{1}, std::span<const bool>(&yes, 1));
    node.bind(1, node.add("ConstantOfShape", {shape}, {{"value", value}}));
  }
  node.op = "Identity";
  node.inputs.resize(1);
  node.attributes.clear();
  node.emit();
}
TENON_IMPORT(convert, "Dropout");

}  // namespace
}  // namespace tenon::onnx::dropout
