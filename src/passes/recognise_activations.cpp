// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "passes/gelu_pattern.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A pattern found at a node: the op that it spells, of `input`, and the inner nodes it stands for.
struct Found {
  std::string op;
  ir::ValueId input;
  ir::Attributes attributes;
  std::vector<std::string> origins;
};

class ActivationMatcher {
 public:
  explicit ActivationMatcher(const ir::Graph& graph) : graph_(graph) {}

  std::optional<Found> at(const ir::Node& node) {
    origins_ = node.origins;
    if (node.op == "Mul") {
      for (size_t side = 0; side < 2; ++side)
        if (auto found = product(node.inputs[side], node.inputs[1 - side])) return found;
    }
    if (node.op == "Div" && is_scalar(graph_, node.inputs[1], 6))
      if (const ir::Node* mul = sole(graph_, node.inputs[0], "Mul"))
        for (size_t side = 0; side < 2; ++side)
          if (clipped_plus_three(mul->inputs[1 - side], mul->inputs[side])) {
            note(mul);
            return result("HardSwish", mul->inputs[side]);
          }
    if (auto gate = hard_sigmoid(node)) return gate;
    if (node.op == "Where") return rectified(node);
    if (node.op == "Max" && node.inputs.size() == 2)
      for (size_t side = 0; side < 2; ++side)
        if (auto found = larger(node.inputs[side], node.inputs[1 - side])) return found;
    if (auto gelu = find_gelu(graph_, node))
      return Found{"Gelu", gelu->x, {{"approximate", gelu->approximate}}, gelu->origins};
    return std::nullopt;
  }

 private:
  void note(const ir::Node* node) { origins_ = joined(node->origins, origins_); }
  Found result(const std::string& op, ir::ValueId input, ir::Attributes attributes = {}) const {
    return {op, input, std::move(attributes), origins_};
  }

  /// x times a gate that is a function of x.
  std::optional<Found> product(ir::ValueId x, ir::ValueId gate) {
    if (const ir::Node* node = sole(graph_, gate, "Sigmoid"); node && node->inputs[0] == x)
      return note(node), result("tenon:Silu", x);
    if (const ir::Node* node = sole(graph_, gate, "HardSigmoid"); node && node->inputs[0] == x)
      if (std::abs(node->real("alpha", 0.2f) - 1.0f / 6) < 1e-5f && std::abs(node->real("beta", 0.5f) - 0.5f) < 1e-6f)
        return note(node), result("HardSwish", x);
    if (const ir::Node* node = sole(graph_, gate, "Div"); node && is_scalar(graph_, node->inputs[1], 6))
      if (clipped_plus_three(node->inputs[0], x)) return note(node), result("HardSwish", x);
    if (const ir::Node* node = sole(graph_, gate, "Mul"))
      for (size_t side = 0; side < 2; ++side)
        if (is_scalar(graph_, node->inputs[side], 1.0 / 6) && clipped_plus_three(node->inputs[1 - side], x))
          return note(node), result("HardSwish", x);
    if (const ir::Node* tanh = sole(graph_, gate, "Tanh"))
      if (const ir::Node* soft = sole(graph_, tanh->inputs[0], "Softplus"); soft && soft->inputs[0] == x)
        return note(tanh), note(soft), result("Mish", x);
    return swish(x, gate);
  }
  /// x sigmoid(alpha x).
  std::optional<Found> swish(ir::ValueId x, ir::ValueId gate) {
    const ir::Node* sigmoid = sole(graph_, gate, "Sigmoid");
    const ir::Node* mul = sigmoid ? sole(graph_, sigmoid->inputs[0], "Mul") : nullptr;
    for (size_t side = 0; mul && side < 2; ++side)
      if (const auto alpha = scalar(graph_, mul->inputs[1 - side]); alpha && mul->inputs[side] == x)
        return note(sigmoid), note(mul), result("Swish", x, {{"alpha", static_cast<float>(*alpha)}});
    return std::nullopt;
  }
  /// x where it is above 0, elsewhere a multiple of x.
  std::optional<Found> rectified(const ir::Node& where) {
    const ir::Node* above = sole(graph_, where.inputs[0], "Greater");
    if (!above) above = sole(graph_, where.inputs[0], "GreaterOrEqual");
    const ir::ValueId x = where.inputs[1];
    if (!above || above->inputs[0] != x || scalar(graph_, above->inputs[1]) != 0.0) return std::nullopt;
    note(above);
    const auto slope = times(where.inputs[2], x);
    return slope ? std::optional(result("LeakyRelu", x, {{"alpha", static_cast<float>(*slope)}})) : std::nullopt;
  }
  /// The larger of x and a part of it.
  std::optional<Found> larger(ir::ValueId x, ir::ValueId other) {
    const auto slope = times(other, x);
    if (!slope || *slope <= 0 || *slope > 1) return std::nullopt;
    return result("LeakyRelu", x, {{"alpha", static_cast<float>(*slope)}});
  }
  /// The number that x is multiplied by.
  std::optional<double> times(ir::ValueId value, ir::ValueId x) {
    const ir::Node* mul = sole(graph_, value, "Mul");
    for (size_t side = 0; mul && side < 2; ++side)
      if (const auto number = scalar(graph_, mul->inputs[1 - side]); number && mul->inputs[side] == x)
        return note(mul), number;
    return std::nullopt;
  }

  /// A clip(x + a, 0, b) by b.
  std::optional<Found> hard_sigmoid(const ir::Node& node) {
    if (node.op != "Mul" && node.op != "Div") return std::nullopt;
    for (size_t side = 0; side < (node.op == "Div" ? 1u : 2u); ++side) {
      const auto number = scalar(graph_, node.inputs[1 - side]);
      const ir::Node* clip = number && *number > 0 ? sole(graph_, node.inputs[side], "Clip") : nullptr;
      if (!clip || clip->inputs.size() < 3 || clip->inputs[1] == ir::no_value || clip->inputs[2] == ir::no_value ||
          scalar(graph_, clip->inputs[1]) != 0.0)
        continue;
      const double slope = node.op == "Div" ? 1 / *number : *number;
      if (!is_scalar(graph_, clip->inputs[2], 1 / slope)) continue;
      const ir::Node* add = sole(graph_, clip->inputs[0], "Add");
      for (size_t at = 0; add && at < 2; ++at)
        if (const auto shift = scalar(graph_, add->inputs[1 - at])) {
          note(clip), note(add);
          return result("HardSigmoid", add->inputs[at],
                        {{"alpha", static_cast<float>(slope)}, {"beta", static_cast<float>(slope * *shift)}});
        }
    }
    return std::nullopt;
  }

  /// clip(x + 3, 0, 6), also as min(relu(x + 3), 6) or Clip without the Add folded away.
  bool clipped_plus_three(ir::ValueId value, ir::ValueId x) {
    const ir::Node* clip = sole(graph_, value, "Clip");
    if (!clip || clip->inputs.size() < 3 || !is_scalar(graph_, clip->inputs[2], 6)) return false;
    ir::ValueId inner = clip->inputs[0];
    const bool floor = clip->inputs[1] != ir::no_value && scalar(graph_, clip->inputs[1]) == 0.0;
    const ir::Node* relu = floor ? nullptr : sole(graph_, inner, "Relu");
    if (!floor && (clip->inputs[1] != ir::no_value || !relu)) return false;
    if (relu) inner = relu->inputs[0];
    const ir::Node* add = sole(graph_, inner, "Add");
    if (!add) return false;
    for (size_t side = 0; side < 2; ++side)
      if (add->inputs[side] == x && is_scalar(graph_, add->inputs[1 - side], 3)) {
        note(clip);
        if (relu) note(relu);
        note(add);
        return true;
      }
    return false;
  }

  const ir::Graph& graph_;
  std::vector<std::string> origins_;
};

}  // namespace

bool recognise_activations(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    if (graph.node(id).outputs.size() != 1 || !is_float(graph.value(graph.node(id).outputs[0]).dtype)) return false;
    const auto found = ActivationMatcher(graph).at(graph.node(id));
    if (!found || !same_shape(graph, found->input, graph.node(id).outputs[0])) return false;
    const std::string name = graph.value(graph.node(id).outputs[0]).name;
    replace(graph, id, graph.apply(found->op, {found->input}, found->attributes, found->origins, name));
    return true;
  });
}

}  // namespace tenon::passes
