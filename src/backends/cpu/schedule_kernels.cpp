// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule_kernels.h"

#include "backends/cpu/control_flow.h"

namespace tenon::cpu {
namespace {

std::unique_ptr<backends::Step> make_step(const backends::ScheduledStep& scheduled) {
  const backends::Problem& problem = scheduled.problems[0];
  return backends::kernel_for(problem, scheduled.tactic).make(problem);
}

}  // namespace

ScheduleKernels::ScheduleKernels(const backends::Schedule& schedule) : schedule_(schedule) {
  for (const backends::ScheduledStep& scheduled : schedule_.steps) {
    steps_.push_back(scheduled.blocks ? nullptr : make_step(scheduled));
    if (steps_.back()) packed_bytes_ += steps_.back()->packed_bytes();
    blocks_.emplace_back();
    if (!scheduled.blocks) continue;
    for (const backends::Schedule& block : *scheduled.blocks) {
      blocks_.back().push_back(std::make_unique<ScheduleKernels>(block));
      packed_bytes_ += blocks_.back().back()->packed_bytes();
    }
  }
}

std::shared_ptr<const backends::Step> ScheduleKernels::step(size_t at) const {
  const backends::ScheduledStep& scheduled = schedule_.steps[at];
  if (scheduled.blocks) return make_control_step(scheduled.problems[0], blocks_[at]);
  return steps_[at]->shared() ? steps_[at] : make_step(scheduled);
}

}  // namespace tenon::cpu
