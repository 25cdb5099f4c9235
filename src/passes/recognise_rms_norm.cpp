// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// x / sqrt(mean(x * x) + epsilon), its mean along the last axis, as exporters spell it; Casts that a graph in f32 does
/// not need are gone before.
class RmsNormMatcher {
 public:
  RmsNormMatcher(const ir::Graph& graph, const ir::Node& last) : graph_(graph), origins_(last.origins) {}

  /// Of the normalised value; the number is x.
  ir::ValueId normalised(ir::ValueId value) {
    if (const ir::Node* div = sole(graph_, value, "Div")) {
      const ir::Node* root = sole(graph_, div->inputs[1], "Sqrt");
      return root && of_squares(root->inputs[0], div->inputs[0]) ? note(*div), note(*root), div->inputs[0]
                                                                 : ir::no_value;
    }
    const ir::Node* mul = sole(graph_, value, "Mul");
    for (size_t side = 0; mul && side < 2; ++side) {
      const ir::Node* inverse = sole(graph_, mul->inputs[1 - side], "Reciprocal");
      const ir::Node* over = inverse ? nullptr : sole(graph_, mul->inputs[1 - side], "Div");
      if (over && is_scalar(graph_, over->inputs[0], 1)) inverse = over;
      const ir::Node* root = inverse ? sole(graph_, inverse->inputs[over ? 1 : 0], "Sqrt") : nullptr;
      if (root && of_squares(root->inputs[0], mul->inputs[side]))
        return note(*mul), note(*inverse), note(*root), mul->inputs[side];
    }
    return ir::no_value;
  }

  double epsilon = 0;
  const std::vector<std::string>& origins() const { return origins_; }

 private:
  void note(const ir::Node& node) { origins_ = joined(node.origins, origins_); }

  /// mean(x * x) + epsilon.
  bool of_squares(ir::ValueId value, ir::ValueId x) {
    const ir::Node* add = sole(graph_, value, "Add");
    for (size_t side = 0; add && side < 2; ++side) {
      const auto number = scalar(graph_, add->inputs[side]);
      const ir::Node* mean = sole(graph_, add->inputs[1 - side], "ReduceMean");
      if (!number || !mean || !is_of_rows(*mean)) continue;
      const ir::Node* square = sole(graph_, mean->inputs[0], "Pow");
      const bool is_power = square && square->inputs[0] == x && is_scalar(graph_, square->inputs[1], 2);
      if (!is_power) square = sole(graph_, mean->inputs[0], "Mul");
      if (!square || (!is_power && (square->inputs[0] != x || square->inputs[1] != x))) continue;
      epsilon = *number;
      return note(*add), note(*mean), note(*square), true;
    }
    return false;
  }
  bool is_of_rows(const ir::Node& mean) const {
    const auto rank = rank_of(graph_, mean.inputs[0]);
    const auto axes = mean.inputs.size() > 1 ? integers(graph_, mean.inputs[1]) : std::nullopt;
    return rank && axes && axes->size() == 1 && mean.integer("keepdims", 1) != 0 &&
           axis_of((*axes)[0], *rank) == *rank - 1;
  }

  const ir::Graph& graph_;
  std::vector<std::string> origins_;
};

/// A row's scale, in whichever number of axes.
const Tensor* scale_of(const ir::Graph& graph, ir::ValueId id, const ir::Dim& length) {
  const Tensor* tensor = graph.constant(id);
  const bool fits = tensor && tensor->dtype() == DType::f32 && tensor->dims().rank() > 0 &&
                    tensor->elements() == tensor->dims().back() && ir::Dim(tensor->elements()) == length;
  return fits ? tensor : nullptr;
}

bool to_norm(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Mul" || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ir::Shape* shape = shape_of(graph, node.outputs[0]);
    if (!shape || shape->size() < 2) return false;
    const Tensor* scale = scale_of(graph, node.inputs[side], shape->back());
    if (!scale || scale->dims().rank() > shape->size()) continue;
    RmsNormMatcher matcher(graph, node);
    const ir::ValueId x = matcher.normalised(node.inputs[1 - side]);
    if (x == ir::no_value || !same_shape(graph, x, node.outputs[0])) continue;
    const std::string name = graph.value(node.outputs[0]).name;
    const ir::ValueId row = scale->dims().rank() == 1
                                ? node.inputs[side]
                                : graph.add_constant(name + ".scale", scale->reshaped({scale->elements()}));
    replace(graph, id,
            graph.apply("RMSNormalization", {x, row},
                        {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(matcher.epsilon)}}, matcher.origins(),
                        name));
    return true;
  }
  return false;
}

}  // namespace

bool recognise_rms_norm(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_norm(graph, id); });
}

}  // namespace tenon::passes
