// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule_kernels.h"

#include <set>
#include <tuple>

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
      steps_.back() = std::move(made.step);
      if (own) own->steps[at].tactic = std::move(made.tactic);
      continue;
    }
    for (const backends::Schedule& block : *scheduled.blocks)
      blocks_.back().push_back(std::make_unique<ScheduleKernels>(block));
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

size_t ScheduleKernels::packed_bytes() const {
  size_t bytes = 0;
  // What WeightCache shares: the same constants, but for lists, packed by the same kernel to the same size.
  std::set<std::tuple<std::vector<const void*>, std::string, size_t>> seen;
  for (size_t at = 0; at < steps_.size(); ++at) {
    for (const auto& block : blocks_[at]) bytes += block->packed_bytes();
    const size_t own = steps_[at] ? steps_[at]->packed_bytes() : 0;
    if (own == 0) continue;
    std::vector<const void*> constants;
    for (const ir::ValueId input : schedule_.graph.node(schedule_.steps[at].node).inputs)
      if (const Tensor* constant = input == ir::no_value ? nullptr : schedule_.constant(input))
        if (size_of(constant->dtype()) > 0 && constant->dims().rank() > 1)
          constants.push_back(constant->data<std::byte>());
    if (seen.emplace(std::move(constants), schedule_.steps[at].tactic, own).second) bytes += own;
  }
  return bytes;
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
