// SPDX-License-Identifier: Apache-2.0
#include "explain/switch.h"

#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "compile/tune.h"
#include "engine/engine.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "quant/materialise.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::explain {
namespace {

/// Some recipe for all that could be in INT8: kernels take the same time whatever the scales.
quant::Recipe recipe_for(const ir::Graph& graph) {
  const quant::Structure structure = quant::structure_of(graph);
  quant::Recipe recipe;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0) recipe.values[graph.values[id].name] = {1.f / 32, 128};
  for (size_t at = 0; at < graph.nodes.size(); ++at)
    if (structure.integer[at])
      recipe.anchors[quant::result_name(graph, graph.nodes[at])].scales =
          quant::weight_scales(quant::weights_of(graph, graph.nodes[at]), {});
  return recipe;
}

/// Tunes the plan for a graph and makes an engine of it.
std::unique_ptr<Engine> tuned(const plan::Plan& plan, ir::Graph graph) {
  constexpr double most_seconds = 20;
  plan::Plan other = plan;
  other.graph = std::move(graph);
  compile::Disturbed disturbed;
  compile::tune(other, {}, disturbed, most_seconds, {});
  return std::make_unique<Engine>(engine_of(std::move(other)));
}

/// Whether a row and an op are one convolution in floating point and in INT8, both alone or both in a group.
bool is_other_form(const Row& row, const ops::Traits& other) {
  const ops::Traits own = ops::traits_of(row.op);
  return own.has(ops::Trait::convolution) && other.has(ops::Trait::convolution) &&
         own.has(ops::Trait::group) == other.has(ops::Trait::group) &&
         other.has(ops::Trait::quantised) != (row.precision == Precision::int8);
}

}  // namespace

std::unique_ptr<Engine> switched(const plan::Plan& plan) {
  // Where steps overlap, the time of one alone says little of the whole.
  if (backends::backend(plan.device).capabilities(plan.device).concurrent ||
      !plan::is_static(plan::concretise(plan.graph, plan.shapes)))
    return nullptr;
  ir::Graph graph = plan.graph;
  bool changed = false;
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id)
    if (graph.node(id).alive) changed |= passes::int8_to_f32(graph, id);
  if (changed) {
    graph.tidy();
    ops::infer(graph);
    return tuned(plan, std::move(graph));
  }
  const quant::Recipe recipe = recipe_for(graph);
  if (recipe.anchors.empty()) return nullptr;
  quant::materialise(graph, recipe);
  passes::lower(graph, {});
  return tuned(plan, std::move(graph));
}

void compare(Report& report, const std::vector<LayerTime>& layers) {
  for (Row& row : report.rows)
    for (const LayerTime& layer : layers)
      if (is_other_form(row, ops::traits_of(layer.name.substr(0, layer.name.find(' ')))) &&
          std::find(layer.origins.begin(), layer.origins.end(), row.name) != layer.origins.end()) {
        row.switched = layer.microseconds;
        break;
      }
  find(report);
}

}  // namespace tenon::explain
