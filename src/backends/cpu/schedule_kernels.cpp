// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/schedule_kernels.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "backends/cpu/control_flow.h"

namespace tenon::cpu {

ScheduleKernels::ScheduleKernels(const backends::Schedule& schedule, backends::Schedule* own,
                                 const ScheduleKernels* like)
    : schedule_(schedule) {
  const auto has_weights = [&](const backends::ScheduledStep& step) {
    return step.problem.weights == schedule.weights.get();
  };
  if (own && !std::all_of(own->steps.begin(), own->steps.end(), has_weights))
    for (backends::ScheduledStep& step : own->steps.own()) step.problem.weights = schedule.weights.get();
  make_steps(like);
}

void ScheduleKernels::make_steps(const ScheduleKernels* like) {
  const size_t count = schedule_.steps.size();
  steps_.reserve(count), blocks_.resize(count), kernels_.resize(count);
  const bool same = like && schedule_.steps.same_as(like->schedule_.steps);
  backends::ScheduledSteps::Sized sized(schedule_);
  for (size_t at = 0; at < count; ++at) {
    const backends::ScheduledStep& scheduled = schedule_.steps[at];
    steps_.emplace_back();
    if (scheduled.blocks) {
      for (const backends::Schedule& block : *scheduled.blocks)
        blocks_[at].push_back(std::make_unique<ScheduleKernels>(block));
      continue;
    }
    const backends::Problem& problem = sized.problem(at);
    if (const backends::Step* const other = like ? like->step_of(scheduled, at, same) : nullptr) {
      if (same) kernels_[at] = like->kernels_[at];
      steps_.back() = other->resized(problem);
    }
    if (steps_.back()) continue;
    backends::MadeStep made = backends::make_step(problem, scheduled.tactic, kernels_[at]);
    steps_.back() = std::move(made.step), kernels_[at] = made.kernel;
    if (made.tactic != scheduled.tactic) others_.emplace(at, std::move(made.tactic));
  }
}

const std::string& ScheduleKernels::tactic(size_t at) const {
  const auto other = others_.find(at);
  return other == others_.end() ? schedule_.steps[at].tactic : other->second;
}

const backends::Step* ScheduleKernels::step_of(const backends::ScheduledStep& wanted, size_t at, bool same) const {
  if (same) return others_.count(at) ? nullptr : steps_[at].get();
  // Views leave out other steps for other sizes, but for the most part it is the same place.
  for (size_t tried = 0, count = steps_.size(); tried < count; ++tried) {
    const size_t place = (at + tried) % count;
    if (schedule_.steps[place].node == wanted.node)
      return tactic(place) == wanted.tactic ? steps_[place].get() : nullptr;
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
    if (seen.emplace(std::move(constants), tactic(at), own).second) bytes += own;
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
  if (scheduled.blocks) return make_control_step(schedule_.problem(at), blocks_[at]);
  if (steps_[at]->shared()) return steps_[at];
  return backends::make_step(schedule_.problem(at), scheduled.tactic, kernels_[at]).step;
}

}  // namespace tenon::cpu
