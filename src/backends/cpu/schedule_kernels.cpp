// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule_kernels.h"

#include <set>

#include "backends/cpu/control_flow.h"

namespace tenon::cpu {

ScheduleKernels::ScheduleKernels(const backends::Schedule& schedule, backends::Schedule* own) : schedule_(schedule) {
  for (size_t at = 0; at < schedule_.steps.size(); ++at) {
    const backends::ScheduledStep& scheduled = schedule_.steps[at];
    if (own) own->steps[at].problem.weights = schedule_.weights.get();
    steps_.emplace_back();
    blocks_.emplace_back();
    if (!scheduled.blocks) {
      backends::MadeStep made = backends::make_step(scheduled.problem, scheduled.tactic);
      packed_bytes_ += made.step->packed_bytes();
      steps_.back() = std::move(made.step);
      if (own) own->steps[at].tactic = std::move(made.tactic);
      continue;
    }
    for (const backends::Schedule& block : *scheduled.blocks) {
      blocks_.back().push_back(std::make_unique<ScheduleKernels>(block));
      packed_bytes_ += blocks_.back().back()->packed_bytes();
    }
  }
}

size_t ScheduleKernels::plain_bytes() const {
  size_t bytes = 0;
  std::set<ir::ValueId> seen;
  for (size_t at = 0; at < steps_.size(); ++at) {
    for (const auto& block : blocks_[at]) bytes += block->plain_bytes();
    if (steps_[at] && steps_[at]->packed_bytes() > 0) continue;
    for (const ir::ValueId input : schedule_.graph.node(schedule_.steps[at].node).inputs) {
      const Tensor* constant = input == ir::no_value ? nullptr : schedule_.constant(input);
      if (constant && size_of(constant->dtype()) && seen.insert(input).second) bytes += constant->bytes();
    }
  }
  return bytes;
}

std::shared_ptr<const backends::Step> ScheduleKernels::step(size_t at) const {
  const backends::ScheduledStep& scheduled = schedule_.steps[at];
  if (scheduled.blocks) return make_control_step(scheduled.problem, blocks_[at]);
  if (steps_[at]->shared()) return steps_[at];
  return backends::make_step(scheduled.problem, scheduled.tactic).step;
}

}  // namespace tenon::cpu
