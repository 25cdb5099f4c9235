// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>
#include <set>

#include "backends/backend.h"
#include "passes/groups.h"
#include "plan/bind.h"
#include "plan/blocks.h"

namespace tenon::plan {
namespace {

using backends::ScheduledStep;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::bad_engine, "the engine's steps are not those of its graph",
              {.why = why, .hint = "build it again from its model"});
}

/// The groups that run as one step.
std::vector<passes::Group> groups_of(const ir::Graph& graph, const Plan& plan, const Steps& steps, bool exactly) {
  if (steps.groups.empty()) return {};
  const std::set<std::string> wanted(steps.groups.begin(), steps.groups.end());
  std::vector<passes::Group> groups = passes::groups_of(graph, backends::backend(plan.device).groups());
  std::erase_if(groups, [&](const auto& group) { return !wanted.count(passes::result_of(graph, group)); });
  if (exactly && groups.size() != steps.groups.size()) refuse("a fusion group is not there");
  return groups;
}

/// Takes out groups that the device does not run with these sizes.
void keep_runnable(std::vector<passes::Group>& groups, const ir::Graph& graph, const Plan& plan) {
  const backends::Backend& backend = backends::backend(plan.device);
  const ir::Graph fused = passes::with_groups(graph, groups);
  const Layout layout = lay_out(fused, false, false);
  std::set<std::string> runnable;
  for (const ir::Value& value : fused.values) {
    if (value.producer == ir::no_node) continue;
    const backends::Problem problem = problem_of(fused, value.producer, layout, plan.threads, plan);
    if (!backend.choose(problem, plan.device, "").empty()) runnable.insert(value.name);
  }
  std::erase_if(groups, [&](const auto& group) { return !runnable.count(passes::result_of(graph, group)); });
}

std::map<std::string, ir::NodeId> nodes_by_result(const ir::Graph& graph) {
  std::map<std::string, ir::NodeId> nodes;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    for (const ir::ValueId output : graph.node(id).outputs)
      if (output != ir::no_value) {
        nodes[graph.value(output).name] = id;
        break;
      }
  return nodes;
}

/// Gives each node its step.
std::vector<const StepChoice*> choices_of(const ir::Graph& graph, const Steps& steps, bool exactly) {
  std::vector<const StepChoice*> choices(graph.nodes.size());
  const std::map<std::string, ir::NodeId> nodes = nodes_by_result(graph);
  for (const StepChoice& step : steps.steps) {
    const auto found = nodes.find(step.result);
    if (found == nodes.end()) {
      if (exactly) refuse("a step runs what is not there");
      continue;
    }
    const StepChoice*& choice = choices[static_cast<size_t>(found->second)];
    if (choice) refuse("a node runs in two steps");
    choice = &step;
  }
  return choices;
}

/// Whether steps are in the order of their nodes, or of the nodes' depths, and every node that runs has one.
void check_steps(const Block& block, const Steps& steps) {
  const ir::Graph& graph = *block.graph;
  const std::vector<int> depth = block.concurrent ? depths(graph) : std::vector<int>();
  std::map<const StepChoice*, int> places;  // of steps
  for (size_t id = 0; id < block.choices.size(); ++id) {
    const StepChoice* const choice = block.choices[id];
    if (!choice && block.layout.runs[id]) refuse("a node has no step");
    if (choice && !block.layout.runs[id]) refuse("a step runs what is free");
    if (choice) places[choice] = block.concurrent ? depth[id] : static_cast<int>(id);
  }
  int last = -1;
  for (const StepChoice& step : steps.steps) {
    if (places.at(&step) < last) refuse("its steps are out of order");
    last = places.at(&step);
  }
  if (block.layout.placement != steps.placement) refuse("its memory is not that of its graph");
}

struct Binder {
  const Plan& plan;
  const backends::Backend& backend;
  const Block& block;
  backends::Schedule& schedule;
  bool on_host;  // whose kernels take everything

  backends::Problem problem(ir::NodeId id) const {
    backends::Problem problem = problem_of(schedule.graph, id, schedule.layout, schedule.threads, plan);
    for (const auto& [value, tensor] : schedule.decided)
      for (size_t at = 0; at < problem.inputs.size(); ++at)
        if (problem.node->inputs[at] == value) problem.inputs[at].constant = tensor;
    return problem;
  }

  /// Whether the node may have bodies: such nodes have results, which are marked.
  bool may_have_bodies(ir::NodeId id) const {
    const std::vector<ir::ValueId>& results = schedule.graph.node(id).outputs;
    return std::any_of(results.begin(), results.end(), [&](ir::ValueId value) {
      return value != ir::no_value && block.facts.whole[static_cast<size_t>(value)];
    });
  }

  ScheduledStep step(ir::NodeId id, const StepChoice* choice) const {
    ScheduledStep step{id, problem(id), {}, choice ? choice->tactic : std::string()};
    BlockChoice blocks;
    if (may_have_bodies(id)) blocks = choose_blocks(schedule.graph, step.problem, id, plan, choice, block.exact);
    if (blocks.blocks) {
      step.blocks = std::move(blocks.blocks), step.tactic = std::move(blocks.tactic);
      return step;
    }
    if (on_host) return step;
    step.tactic = backend.choose(step.problem, plan.device, step.tactic);
    if (!step.tactic.empty()) return step;
    ScheduledStep::OnHost host{host_problem_of(schedule.graph, id, schedule.layout, schedule.threads, plan), {}};
    host.tactic = backends::kernel_for(host.problem, choice ? choice->host : std::string()).name;
    step.host = std::move(host);
    return step;
  }
};

}  // namespace

Block block_of(const Plan& plan, const Steps& steps, ir::Graph graph, bool exactly) {
  const backends::Capabilities can = backends::backend(plan.device).capabilities(plan.device);
  std::vector<passes::Group> groups = groups_of(graph, plan, steps, exactly);
  if (!exactly && !groups.empty()) keep_runnable(groups, graph, plan);
  if (!groups.empty()) graph = passes::with_groups(std::move(graph), groups);
  Block block;
  block.graph = std::make_shared<const ir::Graph>(std::move(graph));
  block.concurrent = steps.concurrent, block.exact = exactly;
  block.facts = layout_facts(*block.graph);
  block.layout = lay_out(*block.graph, block.concurrent, can.host_memory, &steps.placement);
  block.choices = choices_of(*block.graph, steps, exactly);
  if (exactly) check_steps(block, steps);
  return block;
}

backends::Schedule bind(const Plan& plan, const Block& block, Layout layout, int threads, Decided decided,
                        const backends::ScheduledSteps* known) {
  backends::Schedule schedule(block.graph);
  schedule.device = plan.device, schedule.threads = threads, schedule.concurrent = block.concurrent;
  schedule.layout = std::move(layout), schedule.decided = std::move(decided);
  if (known && schedule.layout.runs == block.layout.runs) {
    schedule.steps = *known;
    return schedule;
  }
  const backends::Backend& backend = backends::backend(plan.device);
  const Binder binder{plan, backend, block, schedule, backend.capabilities(plan.device).host_memory};
  std::vector<ScheduledStep> steps;
  steps.reserve(block.choices.size());
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(block.choices.size()); ++id)
    if (schedule.layout.runs[id]) steps.push_back(binder.step(id, block.choices[static_cast<size_t>(id)]));
  schedule.steps = backends::ScheduledSteps(std::move(steps));
  if (schedule.concurrent) sort_by_depth(schedule);
  return schedule;
}

}  // namespace tenon::plan
