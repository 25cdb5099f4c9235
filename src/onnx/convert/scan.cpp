// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

namespace tenon::onnx::scan {
namespace {

// Opset 8 scans every element of a batch by itself: an outer scan over the batch, whose body is the present-day scan.
void convert(NodeImport& node) {
  if (node.opset >= 9) return node.emit();
  if (node.has(0)) node.unsupported("sequence_lens of opset 8");
  const int64_t captures = node.integer("captures", 0);
  const size_t last = node.inputs.size() - static_cast<size_t>(captures);
  const int64_t scans = node.integer("num_scan_inputs", 0);
  const int64_t batched = static_cast<int64_t>(last) - 1;
  if (batched < 1 || scans < 1 || scans > batched) node.fail("num_scan_inputs does not fit its inputs");

  auto outer = std::make_shared<ir::Graph>();
  outer->name = node.label();
  std::vector<ir::ValueId> inputs, outputs;
  for (size_t at = 1; at < node.inputs.size(); ++at) {
    inputs.push_back(outer->add_value("in" + std::to_string(at)));
    outer->inputs.push_back(inputs.back());
  }
  for (size_t at = 0; at < node.outputs(); ++at) {
    outputs.push_back(outer->add_value("out" + std::to_string(at)));
    outer->outputs.push_back(outputs.back());
    outer->output_names.push_back("out" + std::to_string(at));
  }
  ir::Attributes attributes = node.attributes;
  if (node.has_attribute("directions")) attributes["scan_input_directions"] = node.integer_list("directions");
  attributes.erase("directions");
  outer->add_node("Scan", inputs, outputs, attributes, {node.label()});

  node.inputs.erase(node.inputs.begin());
  node.attributes = {{"body", outer}, {"num_scan_inputs", batched}, {"captures", captures}};
  node.emit();
}
TENON_IMPORT(convert, "Scan");

}  // namespace
}  // namespace tenon::onnx::scan
