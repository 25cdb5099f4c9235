// SPDX-License-Identifier: Apache-2.0
#include "plan/body_plans.h"

#include <tenon/error.h>

#include <iterator>

#include "ops/control_flow.h"
#include "plan/blocks.h"

namespace tenon::plan {
namespace {

/// Of all inputs, by name; nullopt where one is not known.
std::optional<Shapes> input_sizes(const ir::Graph& body) {
  Shapes sizes;
  for (const ir::ValueId input : body.inputs) {
    const ir::Value& value = body.value(input);
    if (!value.shape || !ir::is_constant(*value.shape) || size_of(value.dtype) == 0) return std::nullopt;
    std::vector<int64_t>& dims = sizes[value.name];
    for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
  }
  return sizes;
}

/// Whether the plan's device runs the node's bodies as blocks of its own steps.
bool has_blocks(const Plan& plan, const ir::Graph& graph, const Layout& layout, ir::NodeId id) {
  return choose_blocks(graph, problem_of(graph, id, layout, plan.threads, plan), id, plan).blocks != nullptr;
}

}  // namespace

std::vector<Plan> body_plans(const Plan& plan, const ir::Graph& graph) {
  std::vector<Plan> plans;
  ir::Graph inferred = graph;
  std::optional<Layout> layout;  // where nodes may be steps
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) {
    if (!graph.node(id).alive || ops::bodies_of(graph.node(id)).empty()) continue;
    if (!layout && is_static(graph)) layout = lay_out(graph);
    if (layout && has_blocks(plan, graph, *layout, id)) continue;
    for (auto& [name, body] : ops::infer_bodies(inferred, id)) {
      const std::optional<Shapes> sizes = input_sizes(body);
      if (!sizes) continue;
      Plan own;
      own.graph = std::move(body), own.shapes = *sizes;
      own.goal = host_goal(plan), own.threads = plan.threads, own.records = plan.records;
      try {
        const ir::Graph concrete = concretise(own.graph, own.shapes);
        std::vector<Plan> inner = body_plans(own, concrete);
        std::move(inner.begin(), inner.end(), std::back_inserter(plans));
        if (is_static(concrete)) plans.push_back(std::move(own));
      } catch (const Error&) {
        // Sizes that a branch cannot have are of a run that does not take it.
      }
    }
  }
  return plans;
}

}  // namespace tenon::plan
