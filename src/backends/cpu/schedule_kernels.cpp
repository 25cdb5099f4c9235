// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule_kernels.h"

#include <set>

#include "backends/cpu/control_flow.h"

namespace tenon::cpu {

ScheduleKernels::ScheduleKernels(const backends::Schedule& schedule, backends::Schedule* own,
                                 const ScheduleKernels* like)
    : schedule_(schedule) {
  steps_.reserve(schedule_.steps.size()), blocks_.reserve(schedule_.steps.size());
  for (size_t at = 0; at < schedule_.steps.size(); ++at) {
    const backends::ScheduledStep& scheduled = schedule_.steps[at];
    if (own) own->steps[at].problem.weights = schedule_.weights.get();
    steps_.emplace_back();
    blocks_.emplace_back();
    if (!scheduled.blocks) {
      const backends::Step* const other = like ? like->step_of(scheduled, at) : nullptr;
      backends::MadeStep made{other ? other->resized(scheduled.problem) : nullptr, scheduled.tactic};
      if (!made.step) made = backends::make_step(scheduled.problem, scheduled.tactic);
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

const backends::Step* ScheduleKernels::step_of(const backends::ScheduledStep& wanted, size_t at) const {
  // Views leave out other steps for other sizes, but for the most part it is the same place.
  for (size_t tried = 0, count = steps_.size(); tried < count; ++tried) {
    const size_t place = (at + tried) % count;
    if (schedule_.steps[place].node == wanted.node)
      return schedule_.steps[place].tactic == wanted.tactic ? steps_[place].get() : nullptr;
  }
  return nullptr;
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
