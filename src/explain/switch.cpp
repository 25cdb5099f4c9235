#include "explain/switch.h"

#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "quant/materialise.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::explain {
namespace {

/// Some recipe for all that could be in eight bits: kernels take the same time whatever the scales.
quant::Recipe recipe_for(const ir::Graph& graph) {
  const quant::Structure structure = quant::structure_of(graph);
  quant::Recipe recipe;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0) recipe.values[graph.values[id].name] = {1.f / 32, 128};
  for (size_t at = 0; at < graph.nodes.size(); ++at)
    if (structure.integer[at])
      recipe.anchors[graph.value(graph.nodes[at].outputs[0]).name].scales =
          quant::weight_scales(quant::weights_of(graph, graph.nodes[at]), {});
  return recipe;
}

/// Weights of i8 as the numbers they stand for.
Tensor widened(const Tensor& weights, const Tensor& scales) {
  Tensor result(DType::f32, weights.dims());
  const int64_t rows = weights.dims()[0], inner = rows > 0 ? weights.elements() / rows : 0;
  for (int64_t at = 0; at < weights.elements(); ++at)
    result.data<float>()[at] =
        static_cast<float>(weights.data<int8_t>()[at]) * scales.data<float>()[scales.elements() == 1 ? 0 : at / inner];
  return result;
}

/// An Int8Conv as a Conv between conversions; its inputs are described in src/ops/int8_conv.cpp.
bool widen(ir::Graph& graph, ir::NodeId id) {
  enum : size_t { x_scale = 4, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };
  const ir::Node node = graph.node(id);
  if (node.op != "Int8Conv") return false;
  const auto input = [&](size_t at) { return at < node.inputs.size() ? node.inputs[at] : ir::no_value; };
  if (!graph.constant(input(1)) || !graph.constant(input(w_scale))) return false;
  const Tensor weights = *graph.constant(input(1)), scales = *graph.constant(input(w_scale));
  if (weights.dtype() != DType::i8) return false;
  const auto convert = [&](const char* op, ir::ValueId value, size_t scale, size_t zero) {
    const int64_t count = graph.constant(input(scale)) ? graph.constant(input(scale))->elements() : 1;
    if (count == 1) return graph.apply(op, {value, input(scale), input(zero)}, {}, {});
    const std::vector<uint8_t> zeros(static_cast<size_t>(count), graph.constant(input(zero))->data<uint8_t>()[0]);
    const ir::ValueId list = graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {count}, zeros));
    return graph.apply(op, {value, input(scale), list}, {{"axis", int64_t{-1}}}, {});
  };
  const auto read = [&](ir::ValueId value, size_t scale, size_t zero) {
    return graph.value(value).dtype == DType::u8 ? convert("DequantizeLinear", value, scale, zero) : value;
  };
  std::vector<ir::ValueId> inputs{read(input(0), x_scale, x_zero), graph.add_constant("", widened(weights, scales)),
                                  input(2)};
  if (input(3) != ir::no_value) inputs.push_back(read(input(3), r_scale, r_zero));
  while (inputs.back() == ir::no_value) inputs.pop_back();
  ir::Attributes attributes = node.attributes;
  attributes.erase("output_dtype");
  ir::ValueId result = graph.apply("Conv", inputs, attributes, node.origins);
  if (input(y_scale) != ir::no_value)
    result = convert("QuantizeLinear", result, y_scale, y_zero);
  graph.value(result).dtype = graph.value(node.outputs[0]).dtype;
  graph.replace_uses(node.outputs[0], result);
  graph.remove(id);
  return true;
}

/// Tunes the plan for a graph and makes an engine of it.
std::unique_ptr<Engine> engine_of(const plan::Plan& plan, ir::Graph graph) {
  constexpr double most_seconds = 20;
  auto impl = std::make_shared<Engine::Impl>();
  impl->plan = plan;
  impl->plan.graph = std::move(graph);
  plan::tune(impl->plan, {}, most_seconds, {});
  return std::make_unique<Engine>(std::move(impl));
}

bool is_integer(const Row& row) { return row.precision == "int8"; }

}  // namespace

std::unique_ptr<Engine> switched(const plan::Plan& plan) {
  if (plan.device != "cpu" || !plan::is_static(plan::concretise(plan.graph, plan.shapes))) return nullptr;
  ir::Graph graph = plan.graph;
  bool changed = false;
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id)
    if (graph.node(id).alive) changed |= widen(graph, id);
  if (changed) {
    graph.tidy();
    ops::infer(graph);
    return engine_of(plan, std::move(graph));
  }
  const quant::Recipe recipe = recipe_for(graph);
  if (recipe.anchors.empty()) return nullptr;
  quant::materialise(graph, recipe);
  passes::lower(graph, {});
  return engine_of(plan, std::move(graph));
}

void compare(Report& report, const std::vector<LayerTime>& layers) {
  for (Row& row : report.rows) {
    if (row.op.find("Conv") == std::string::npos) continue;
    const std::string other = is_integer(row) ? "Conv" : "Int8Conv";
    for (const LayerTime& layer : layers)
      if (layer.name.rfind(other + " ", 0) == 0 &&
          std::find(layer.origins.begin(), layer.origins.end(), row.name) != layer.origins.end()) {
        row.switched = layer.microseconds;
        break;
      }
  }
  find(report);
}

}  // namespace tenon::explain
