// SPDX-License-Identifier: Apache-2.0
#include "ops/group_op.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_add_norm {
namespace {

/// tenon:AddLayerNorm and tenon:AddRmsNorm: the sum of two tensors of one size, and its rows normalised along the last
/// axis. Inputs: the two, scale and bias of a row; outputs: the sum, the normalised.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  const bool centred = ops::has_trait(group.op, ops::Trait::centred);
  const ir::ValueId sum = graph.apply("Add", {inputs[0], inputs[1]}, {}, group.origins);
  std::vector<ir::ValueId> operands{sum};
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return {sum,
          graph.apply(centred ? "LayerNormalization" : "RMSNormalization", operands, group.attributes, group.origins)};
}

bool is_row(const ir::Graph& graph, ir::ValueId id, const ir::Dim& length) {
  const Tensor* tensor = graph.constant(id);
  return tensor && tensor->dims().rank() == 1 && ir::Dim(tensor->elements()) == length;
}

/// A norm of the last axis, and the sum that it reads; others may read that as well.
std::optional<Group> add_norm_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& norm = graph.node(id);
  const bool centred = norm.op == "LayerNormalization";
  if ((!centred && norm.op != "RMSNormalization") || norm.outputs.size() != 1) return std::nullopt;
  const ir::NodeId maker = graph.value(norm.inputs[0]).producer;
  const ir::Shape* shape = shape_of(graph, norm.inputs[0]);
  if (maker == ir::no_node || taken.count(maker) || !shape || shape->empty()) return std::nullopt;
  const ir::Node& add = graph.node(maker);
  const int64_t axis = norm.integer("axis", -1);
  if (add.op != "Add" || (axis != -1 && axis + 1 != static_cast<int64_t>(shape->size()))) return std::nullopt;
  for (const ir::ValueId input : add.inputs)
    if (graph.constant(input) || !same_shape(graph, input, norm.inputs[0])) return std::nullopt;
  Group group{{maker, id},
              centred ? "tenon:AddLayerNorm" : "tenon:AddRmsNorm",
              add.inputs,
              {norm.inputs[0], norm.outputs[0]},
              {{"epsilon", norm.real("epsilon", 1e-5f)}}};
  for (size_t at = 1; at < norm.inputs.size(); ++at) {
    if (norm.inputs[at] == ir::no_value || !is_row(graph, norm.inputs[at], shape->back())) return std::nullopt;
    group.inputs.push_back(norm.inputs[at]);
  }
  return group;
}

const ops::Registrar layer(ops::group_op<members>("tenon:AddLayerNorm", 3, 4, 2,
                                                  {ops::attr::real("epsilon").internal()}, ops::Trait::centred));
const ops::Registrar rms(ops::group_op<members>("tenon:AddRmsNorm", 3, 3, 2, {ops::attr::real("epsilon").internal()}));
const GroupRegistrar layers("tenon:AddLayerNorm", add_norm_at);
const GroupRegistrar rmses("tenon:AddRmsNorm", add_norm_at);

}  // namespace
}  // namespace tenon::passes::group_add_norm
