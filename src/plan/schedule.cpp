// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "backends/backend.h"
#include "base/hash.h"
#include "plan/blocks.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

using backends::Backend;
using backends::ScheduledStep;

struct Scheduler {
  const Plan& plan;
  const Backend& backend;
  backends::Schedule& schedule;

  std::string recorded(const std::string& key) const {
    const Record* record = record_for(key, plan.records);
    return record ? record->kernel : std::string();
  }

  backends::Problem problem(ir::NodeId id) const {
    return problem_of(schedule.graph, id, schedule.layout, schedule.threads, plan);
  }

  void choose_tactic(ScheduledStep& step) const {
    step.tactic = backend.choose(step.problem, plan.device, recorded(step.key));
    if (!step.tactic.empty()) return;
    step.key.clear();
    ScheduledStep::OnHost host{host_problem_of(schedule.graph, step.node, schedule.layout, schedule.threads, plan), {}};
    host.tactic = choose(host.problem, plan.records).name;
    step.host = std::move(host);
  }
};

}  // namespace

void sort_by_depth(backends::Schedule& schedule) {
  const std::vector<int> depth = depths(schedule.graph);
  std::vector<ScheduledStep>& steps = schedule.steps.own();
  std::stable_sort(steps.begin(), steps.end(), [&](const ScheduledStep& a, const ScheduledStep& b) {
    return depth[static_cast<size_t>(a.node)] < depth[static_cast<size_t>(b.node)];
  });
}

backends::Schedule schedule(const Plan& plan, ir::Graph graph, int threads, Branches branches) {
  const Backend& backend = backends::backend(plan.device);
  const backends::Capabilities can = backend.capabilities(plan.device);
  backends::Schedule schedule(std::move(graph));
  schedule.device = plan.device, schedule.threads = threads;
  schedule.layout = lay_out(schedule.graph, false, can.host_memory);
  const Scheduler scheduler{plan, backend, schedule};
  const auto count = static_cast<ir::NodeId>(schedule.graph.nodes.size());
  for (ir::NodeId id = 0; id < count; ++id) {
    if (!schedule.layout.runs[id]) continue;
    ScheduledStep step{id, scheduler.problem(id)};
    BlockChoice choice = choose_blocks(schedule.graph, step.problem, id, plan);
    if (choice.blocks) step.blocks = std::move(choice.blocks), step.tactic = std::move(choice.tactic);
    else step.key = backend.key(step.problem, &plan.device);
    schedule.steps.own().push_back(std::move(step));
  }
  const Record* network = can.concurrent ? record_for(network_key(keys_of(schedule)), plan.records) : nullptr;
  schedule.concurrent = branches == Branches::concurrent ||
                        (branches == Branches::as_recorded && network && network->kernel == concurrent);
  if (schedule.concurrent) {
    sort_by_depth(schedule);
    schedule.layout = lay_out(schedule.graph, true, can.host_memory);
    for (ScheduledStep& step : schedule.steps.own()) step.problem = scheduler.problem(step.node);
  }
  for (ScheduledStep& step : schedule.steps.own())
    if (step.tactic.empty()) scheduler.choose_tactic(step);
  return schedule;
}

std::vector<std::string> keys_of(const backends::Schedule& schedule) {
  std::vector<std::string> keys;
  for (const ScheduledStep& step : schedule.steps) keys.push_back(step.key);
  return keys;
}

std::string network_key(const std::vector<std::string>& keys) {
  std::string all;
  for (const std::string& key : keys) all += key + '\n';
  return fmt::format("network {:016x}", hash64(std::as_bytes(std::span(all))));
}

}  // namespace tenon::plan
