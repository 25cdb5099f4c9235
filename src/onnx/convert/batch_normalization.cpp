// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::batch_normalization {
namespace {

// Up to opset 13 more outputs than one mean training; up to 8 `spatial` = 0 gives every element its own statistics.
void convert(NodeImport& node) {
  if (node.integer("spatial", 1) == 0) node.unsupported("spatial = 0");
  if (node.opset < 14) {
    for (size_t output = 1; output < node.outputs(); ++output)
      if (node.wants(output)) node.bind(output, node.input(output <= 2 ? output + 2 : output));
  }
  node.drop({"spatial", "is_test", "consumed_inputs"});
  node.emit();
}
TENON_IMPORT(convert, "BatchNormalization");

}  // namespace
}  // namespace tenon::onnx::batch_normalization
