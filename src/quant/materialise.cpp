// SPDX-License-Identifier: Apache-2.0
#include "quant/materialise.h"

#include <algorithm>

#include "ops/op.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

ir::ValueId scalar(ir::Graph& graph, const std::string& name, float value) {
  return graph.add_constant(name, Tensor::of<float>(DType::f32, {}, std::vector<float>{value}));
}

/// Puts values through bytes, with factors where the recipe has some.
class Stores {
 public:
  Stores(ir::Graph& graph, const Recipe& recipe) : graph_(graph), recipe_(recipe), carried_(graph.nodes.size(), 0) {
    for (size_t id = 0; id < graph.nodes.size(); ++id) carried_[id] = carries_factors(graph.nodes[id]);
  }

  /// Puts the value through bytes. Those of x / factor go to layers whose weights have the factors, and to nodes that
  /// carry them on; everyone else gets x.
  void add(ir::ValueId id, const Quantiser& quantiser) {
    const ir::Value value = graph_.value(id);
    origins_ = value.producer == ir::no_node ? std::vector<std::string>{} : graph_.node(value.producer).origins;
    const auto found = recipe_.factors.find(value.name);
    const std::vector<float>* const factors = found == recipe_.factors.end() ? nullptr : &found->second;
    const Grid plain = grid(value.name, quantiser, nullptr);
    const Grid own = factors ? grid(value.name + ".by_channel", quantiser, factors) : plain;
    const ir::Attributes axis = factors ? ir::Attributes{{"axis", int64_t{-1}}} : ir::Attributes{};
    const bool divided = factors && is_carried(value.producer);
    const Grid& in = divided ? plain : own;
    const ir::ValueId stored = graph_.apply("QuantizeLinear", {id, in.scale, in.zero},
                                            divided ? ir::Attributes{} : axis, origins_, value.name + ".u8");
    ir::ValueId scaled = ir::no_value, real = ir::no_value;
    for (const ir::NodeId user : value.users)
      for (size_t slot = 0; slot < graph_.node(user).inputs.size(); ++slot) {
        if (graph_.node(user).inputs[slot] != id) continue;
        const bool takes_scaled = !factors || takes_divided(user, slot);
        ir::ValueId& read = takes_scaled ? scaled : real;
        const Grid& out = takes_scaled ? plain : own;
        if (read == ir::no_value)
          read = graph_.apply("DequantizeLinear", {stored, out.scale, out.zero},
                              takes_scaled ? ir::Attributes{} : axis, origins_,
                              value.name + (takes_scaled ? ".read" : ".real"));
        graph_.set_input(user, slot, read);
      }
  }

 private:
  struct Grid {
    ir::ValueId scale, zero;
  };

  Grid grid(const std::string& name, const Quantiser& quantiser, const std::vector<float>* factors) {
    if (!factors)
      return {scalar(graph_, name + ".scale", quantiser.scale),
              graph_.add_constant(name + ".zero", Tensor::of<uint8_t>(DType::u8, {}, std::vector{zero_of(quantiser)}))};
    const Dims dims{static_cast<int64_t>(factors->size())};
    std::vector<float> scales;
    for (const float factor : *factors) scales.push_back(quantiser.scale * factor);
    return {graph_.add_constant(name + ".scale", Tensor::of<float>(DType::f32, dims, scales)),
            graph_.add_constant(
                name + ".zero",
                Tensor::of<uint8_t>(DType::u8, dims, std::vector<uint8_t>(factors->size(), zero_of(quantiser))))};
  }
  static uint8_t zero_of(const Quantiser& quantiser) { return static_cast<uint8_t>(quantiser.zero); }

  bool has_factors(ir::ValueId id) const {
    return id != ir::no_value && recipe_.factors.count(graph_.value(id).name) > 0;
  }
  /// Whether a node moves divided values as they are: it carries, and all that it makes has factors.
  bool carries_factors(const ir::Node& node) const {
    return node.alive && role_of(graph_, node) == Role::carries &&
           std::all_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId out) {
             return has_factors(out) || out == ir::no_value ||
                    (graph_.value(out).users.empty() && !graph_.is_output(out));
           });
  }
  bool is_carried(ir::NodeId id) const {
    return id != ir::no_node && static_cast<size_t>(id) < carried_.size() && carried_[static_cast<size_t>(id)];
  }
  bool takes_divided(ir::NodeId user, size_t slot) const {
    const ir::Node& node = graph_.node(user);
    if (node.outputs.empty()) return false;
    return is_carried(user) || (slot == 0 && recipe_.anchors.count(result_name(graph_, node)) > 0);
  }

  ir::Graph& graph_;
  const Recipe& recipe_;
  std::vector<char> carried_;  // by node, of those there are before the first value is stored
  std::vector<std::string> origins_;
};

void set_bias(ir::Graph& graph, ir::NodeId id, const std::string& name, const std::vector<float>& bias) {
  if (bias.empty()) return;
  const Dims dims{static_cast<int64_t>(bias.size())};
  const ir::ValueId constant = graph.add_constant(name + ".bias", Tensor::of<float>(DType::f32, dims, bias));
  if (graph.node(id).inputs.size() > 2) graph.set_input(id, 2, constant);
  else graph.add_input(id, constant);
}

/// Calls `each` for every anchor of the recipe, by node and its entry.
template <class F>
void each_anchor(ir::Graph& graph, const Recipe& recipe, const F& each) {
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
    if (!graph.node(id).alive || graph.node(id).outputs.empty()) continue;
    const std::string name = result_name(graph, graph.node(id));
    if (const auto found = recipe.anchors.find(name); found != recipe.anchors.end()) each(id, name, found->second);
  }
}

void finish(ir::Graph& graph) {
  graph.tidy();
  ops::infer(graph);
  ir::verify(graph);
}

}  // namespace

void materialise(ir::Graph& graph, const Recipe& recipe) {
  each_anchor(graph, recipe, [&](ir::NodeId id, const std::string& name, const WeightQuantiser& how) {
    const ir::ValueId weights = graph.node(id).inputs[1];
    const WeightView view = weights_of(graph, graph.node(id), recipe.factors);
    const ir::ValueId stored = graph.add_constant(graph.value(weights).name + ".i8",
                                                  store_weights(*graph.constant(weights), view, how));
    const ir::ValueId scales = graph.add_constant(
        graph.value(weights).name + ".scales", Tensor::of<float>(DType::f32, Dims{view.rows}, how.scales));
    const std::vector<std::string> origins = graph.node(id).origins;
    const ir::ValueId read =
        graph.apply("DequantizeLinear", {stored, scales}, {{"axis", view.axis}}, origins, name + ".weights");
    graph.set_input(id, 1, read);
    set_bias(graph, id, name, how.bias);
  });
  Stores stores(graph, recipe);
  for (ir::ValueId id = 0, count = static_cast<ir::ValueId>(graph.values.size()); id < count; ++id)
    if (const auto found = recipe.values.find(graph.value(id).name); found != recipe.values.end())
      stores.add(id, found->second);
  finish(graph);
}

void round_weights(ir::Graph& graph, const Recipe& recipe) {
  each_anchor(graph, recipe, [&](ir::NodeId id, const std::string& name, const WeightQuantiser& how) {
    const ir::ValueId weights = graph.node(id).inputs[1];
    const WeightView view = weights_of(graph, graph.node(id), recipe.factors);
    graph.set_input(id, 1, graph.add_constant(graph.value(weights).name + ".rounded",
                                              rounded_weights(*graph.constant(weights), view, how)));
    set_bias(graph, id, name, how.bias);
  });
  finish(graph);
}

}  // namespace tenon::quant
