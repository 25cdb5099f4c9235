// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise_pair.h"

#include "ops/group_op.h"
#include "ops/op.h"
#include "ops/parts.h"

namespace tenon::ops {
namespace {

constexpr size_t conv_inputs = 4, int8_conv_inputs = 11;

}  // namespace

PointwisePair pointwise_pair_of(const ir::Node& node) {
  const bool bytes = node.op == "tenon:Int8PointwisePair";
  const ir::OpId conv = bytes ? "tenon:Int8Conv" : "Conv";
  return {part_of(node, conv, "first."), part_of(node, conv, "second."), bytes ? int8_conv_inputs : conv_inputs};
}

std::vector<ir::ValueId> pointwise_pair_inputs(const ir::Node& first, const ir::Node& second) {
  std::vector<ir::ValueId> inputs = first.inputs;
  inputs.resize(first.op == "Conv" ? conv_inputs : int8_conv_inputs, ir::no_value);
  inputs.insert(inputs.end(), second.inputs.begin() + 1, second.inputs.end());
  return inputs;
}

ir::Attributes pointwise_pair_attributes(const ir::Node& first, const ir::Node& second) {
  ir::Attributes attributes;
  add_part(attributes, first, "first.");
  add_part(attributes, second, "second.");
  return attributes;
}

namespace {

std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  const auto [first, second, begins] = pointwise_pair_of(group);
  if (inputs.size() <= begins || inputs[begins] == ir::no_value) fail_at(group, "weights are missing");
  const auto middle = inputs.begin() + static_cast<int64_t>(begins);
  const ir::ValueId wide = graph.apply(first.op, {inputs.begin(), middle}, first.attributes, group.origins);
  std::vector<ir::ValueId> others{wide};
  others.insert(others.end(), middle, inputs.end());
  return {wide, graph.apply(second.op, others, second.attributes, group.origins)};
}

const Registrar floats(group_op<members>("tenon:PointwisePair", 2, 7, 2,
                                         {attr::part("first.", "Conv"), attr::part("second.", "Conv")},
                                         Trait::product | Trait::convolution | Traits::weights_at({1, 4})));
const Registrar bytes(group_op<members>("tenon:Int8PointwisePair", 2, 21, 2,
                                        {attr::part("first.", "tenon:Int8Conv"),
                                         attr::part("second.", "tenon:Int8Conv")},
                                        Trait::product | Trait::convolution | Trait::quantised));

}  // namespace
}  // namespace tenon::ops
