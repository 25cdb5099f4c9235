// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "plan/plan.h"

/// Bodies of nodes that branch or loop, as schedules of their own.
namespace tenon::plan {

using Blocks = std::shared_ptr<const std::vector<backends::Schedule>>;

/// The bodies of a node of a concretised graph, in the order of ops::bodies_of, and how the plan's device runs them.
/// No blocks: the node has none, a size in them depends on data or changes from round to round, or the device does not
/// run them. With a `step` that has blocks they are its, `exactly` as block_of() has it; else as the plan's records
/// say.
struct BlockChoice {
  Blocks blocks;
  std::string tactic;
};
BlockChoice choose_blocks(const ir::Graph& graph, const backends::Problem& problem, ir::NodeId node, const Plan& plan,
                          const StepChoice* step = nullptr, bool exactly = false);

/// Calls `visit` on each step of these and of the blocks in them.
template <class Visit>
void each_step(const backends::Schedule& schedule, const Visit& visit) {
  for (const backends::ScheduledStep& step : schedule.steps) {
    visit(step);
    if (step.blocks)
      for (const backends::Schedule& block : *step.blocks) each_step(block, visit);
  }
}

}  // namespace tenon::plan
