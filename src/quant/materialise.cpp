#include "quant/materialise.h"

#include "ops/op.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

ir::ValueId scalar(ir::Graph& graph, const std::string& name, float value) {
  return graph.add_constant(name, Tensor::of<float>(DType::f32, {}, std::vector<float>{value}));
}

void quantise_value(ir::Graph& graph, ir::ValueId id, const Quantiser& quantiser) {
  const ir::Value value = graph.value(id);
  const std::vector<std::string> origins =
      value.producer == ir::no_node ? std::vector<std::string>{} : graph.node(value.producer).origins;
  const std::vector<ir::NodeId> users = value.users;
  const ir::ValueId scale = scalar(graph, value.name + ".scale", quantiser.scale);
  const ir::ValueId zero = graph.add_constant(
      value.name + ".zero", Tensor::of<uint8_t>(DType::u8, {}, std::vector{static_cast<uint8_t>(quantiser.zero)}));
  const ir::ValueId stored = graph.apply("QuantizeLinear", {id, scale, zero}, {}, origins, value.name + ".u8");
  const ir::ValueId read = graph.apply("DequantizeLinear", {stored, scale, zero}, {}, origins, value.name + ".read");
  for (const ir::NodeId user : users)
    for (size_t slot = 0; slot < graph.node(user).inputs.size(); ++slot)
      if (graph.node(user).inputs[slot] == id) graph.set_input(user, slot, read);
}

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
    const std::string name = graph.value(graph.node(id).outputs[0]).name;
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
    const WeightView view = weights_of(graph, graph.node(id));
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
  for (ir::ValueId id = 0, count = static_cast<ir::ValueId>(graph.values.size()); id < count; ++id)
    if (const auto found = recipe.values.find(graph.value(id).name); found != recipe.values.end())
      quantise_value(graph, id, found->second);
  finish(graph);
}

void round_weights(ir::Graph& graph, const Recipe& recipe) {
  each_anchor(graph, recipe, [&](ir::NodeId id, const std::string& name, const WeightQuantiser& how) {
    const ir::ValueId weights = graph.node(id).inputs[1];
    const WeightView view = weights_of(graph, graph.node(id));
    graph.set_input(id, 1, graph.add_constant(graph.value(weights).name + ".rounded",
                                              rounded_weights(*graph.constant(weights), view, how)));
    set_bias(graph, id, name, how.bias);
  });
  finish(graph);
}

}  // namespace tenon::quant
