// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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
    return gelu(x, gate);
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

  /// 1 + f of a value; the op of f must match.
  const ir::Node* one_plus(ir::ValueId value, const char* op) {
    const ir::Node* add = sole(graph_, value, "Add");
    if (!add) return nullptr;
    for (size_t side = 0; side < 2; ++side)
      if (is_scalar(graph_, add->inputs[side], 1))
        if (const ir::Node* inner = sole(graph_, add->inputs[1 - side], op)) return note(add), note(inner), inner;
    return nullptr;
  }
  /// The other operand of a Mul by a number, or of a Div by its inverse.
  ir::ValueId scaled_by(ir::ValueId value, double number) {
    if (const ir::Node* mul = sole(graph_, value, "Mul"))
      for (size_t side = 0; side < 2; ++side)
        if (is_scalar(graph_, mul->inputs[side], number)) return note(mul), mul->inputs[1 - side];
    if (const ir::Node* div = sole(graph_, value, "Div"); div && is_scalar(graph_, div->inputs[1], 1 / number))
      return note(div), div->inputs[0];
    return ir::no_value;
  }
  /// The gate g(x) = 1 + erf(x / sqrt 2) or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  std::optional<std::string> gelu_gate(ir::ValueId gate, ir::ValueId x) {
    if (const ir::Node* erf = one_plus(gate, "Erf"))
      return scaled_by(erf->inputs[0], std::sqrt(0.5)) == x ? std::optional<std::string>("none") : std::nullopt;
    if (const ir::Node* tanh = one_plus(gate, "Tanh")) {
      const ir::ValueId inner = scaled_by(tanh->inputs[0], std::sqrt(2 / M_PI));
      const ir::Node* add = inner == ir::no_value ? nullptr : sole(graph_, inner, "Add");
      if (!add) return std::nullopt;
      for (size_t side = 0; side < 2; ++side) {
        if (add->inputs[side] != x) continue;
        const ir::ValueId cube = scaled_by(add->inputs[1 - side], 0.044715);
        const ir::Node* power = cube == ir::no_value ? nullptr : sole(graph_, cube, "Pow");
        if (power && power->inputs[0] == x && is_scalar(graph_, power->inputs[1], 3))
          return note(add), note(power), "tanh";
      }
    }
    return std::nullopt;
  }
  /// 0.5 * x * g(x) in its three groupings; called with the two sides of the outermost product.
  std::optional<Found> gelu(ir::ValueId left, ir::ValueId right) {
    const std::vector<std::string> before = origins_;
    const auto found = [&](const std::string& form, ir::ValueId x) {
      return result("Gelu", x, {{"approximate", form}});
    };
    // (0.5 x) g
    if (const ir::ValueId x = scaled_by(left, 0.5); x != ir::no_value)
      if (const auto form = gelu_gate(right, x)) return found(*form, x);
    origins_ = before;
    // x (0.5 g)
    if (const ir::ValueId gate = scaled_by(right, 0.5); gate != ir::no_value)
      if (const auto form = gelu_gate(gate, left)) return found(*form, left);
    origins_ = before;
    // 0.5 (x g)
    if (is_scalar(graph_, left, 0.5))
      if (const ir::Node* mul = sole(graph_, right, "Mul"))
        for (size_t side = 0; side < 2; ++side) {
          if (const auto form = gelu_gate(mul->inputs[1 - side], mul->inputs[side]))
            return note(mul), found(*form, mul->inputs[side]);
          origins_ = before;
        }
    return std::nullopt;
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
