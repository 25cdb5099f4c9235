// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

#include <tenon/version.h>

#include "backends/backend.h"
#include "passes/groups.h"
#include "plan/plan.h"
#include "plan/rest.h"

namespace tenon::plan {
namespace {

/// What names a node: its first result.
const std::string& result_of(const ir::Graph& graph, const ir::Node& node) {
  static const std::string none;
  for (const ir::ValueId output : node.outputs)
    if (output != ir::no_value) return graph.value(output).name;
  return none;
}

Steps steps_of(const backends::Schedule& schedule) {
  Steps steps;
  for (const ir::Node& node : schedule.graph.nodes)
    if (node.members) steps.groups.push_back(schedule.graph.value(node.outputs.back()).name);
  for (const backends::ScheduledStep& step : schedule.steps) {
    StepChoice choice{result_of(schedule.graph, schedule.graph.node(step.node)), step.tactic,
                      step.host ? step.host->tactic : std::string()};
    if (step.blocks)
      for (const backends::Schedule& block : *step.blocks) choice.blocks.push_back(steps_of(block));
    steps.steps.push_back(std::move(choice));
  }
  steps.concurrent = schedule.concurrent;
  steps.placement = schedule.layout.placement;
  return steps;
}

}  // namespace

std::string maker_of(const Device& device) {
  const backends::Backend& backend = backends::backend(device);
  if (!backend.has(device)) return {};
  return device.backend + " " + backend.capabilities(device).isa + ", Tenon " + version();
}

Planned planned(ir::Graph concrete, const Plan& plan) {
  Planned result;
  if (is_static(concrete)) {
    result.graph = std::move(concrete);
    return result;
  }
  if (backends::backend(plan.device).capabilities(plan.device).parts) {
    Parts parts = parts_of(concrete);
    if (!parts.head.nodes.empty()) {
      result.graph = std::move(parts.head);
      result.rest = std::move(parts.tail);
    }
  }
  if (!result.rest) result.rest = concrete;
  result.whole = std::move(concrete);
  return result;
}

Steps make_steps(const Plan& plan, const ir::Graph& graph) {
  Steps steps = steps_of(schedule(plan, device_graph(graph, plan), plan.threads));
  steps.maker = maker_of(plan.device);
  return steps;
}

void make_steps(Plan& plan) {
  plan.steps.clear();
  if (!backends::backend(plan.device).has(plan.device)) return;
  const auto add = [&](const Shapes& shapes) {
    const Planned part = planned(concretise(plan.graph, shapes), plan);
    plan.steps.push_back(part.graph ? make_steps(plan, *part.graph) : Steps());
    plan.steps.back().maker = maker_of(plan.device);
    if (part.rest) plan.steps.back().rest = make_rest_steps(plan, *part.rest);
  };
  if (plan.profiles.empty()) add(plan.shapes);
  for (const Profile& profile : plan.profiles) add(profile.opt);
}

}  // namespace tenon::plan
