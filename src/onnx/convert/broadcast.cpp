// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::broadcast {
namespace {

// Gives the value `count` more sizes of 1 at its end.
ir::ValueId with_trailing(NodeImport& node, ir::ValueId value, size_t rank, size_t count) {
  std::vector<int64_t> axes;
  for (size_t at = 0; at < count; ++at) axes.push_back(static_cast<int64_t>(rank + at));
  return node.add("Unsqueeze", {value, node.integers(axes)});
}

// Up to opset 6 the second input's sizes stand from `axis` of the first one's on.
void convert(NodeImport& node) {
  if (node.opset < 7) {
    const bool aligned = node.integer("broadcast", 0) != 0 && node.has_attribute("axis");
    const int64_t axis = node.integer("axis", 0);
    node.drop({"broadcast", "axis", "consumed_inputs"});
    if (aligned) {
      const auto first = node.rank(node.input(0)), second = node.rank(node.input(1));
      if (!first || !second) {
        node.unsupported("broadcasting from an axis needs known ranks");
      } else {
        const int64_t start = axis < 0 ? axis + static_cast<int64_t>(*first) : axis;
        const int64_t behind = static_cast<int64_t>(*first) - start - static_cast<int64_t>(*second);
        if (start < 0 || behind < 0)
          node.fail("the second input does not fit the first from axis " + std::to_string(axis) + " on");
        if (behind > 0) node.inputs[1] = with_trailing(node, node.input(1), *second, static_cast<size_t>(behind));
      }
    }
  }
  node.emit();
}
TENON_IMPORT(convert, "Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less");

// Up to opset 6 a list of slopes belongs to axis 1.
void prelu(NodeImport& node) {
  if (node.opset < 7) {
    const auto data = node.rank(node.input(0)), slope = node.rank(node.input(1));
    const Tensor* constant = node.has(1) ? node.graph().constant(node.input(1)) : nullptr;
    const bool single = constant && constant->elements() == 1;
    if (slope == 1u && !single) {
      if (!data) {
        node.unsupported("slopes per channel need a known rank");
      } else if (*data > 2) {
        node.inputs[1] = with_trailing(node, node.input(1), 1, *data - 2);
      }
    }
  }
  node.emit();
}
TENON_IMPORT(prelu, "PRelu");

void gemm(NodeImport& node) {
  node.drop({"broadcast"});
  node.emit();
}
TENON_IMPORT(gemm, "Gemm");

}  // namespace
}  // namespace tenon::onnx::broadcast
