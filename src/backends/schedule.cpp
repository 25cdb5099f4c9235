// SPDX-License-Identifier: Apache-2.0
#include "backends/schedule.h"

namespace tenon::backends {
namespace {

/// Constants have one size. What they hold may be decided by others' sizes.
void fit(Operand& operand, const Operand& made, ir::ValueId value, const Schedule& schedule) {
  if (value == ir::no_value) return;
  if (!made.constant) {
    const Place& place = schedule.layout.places[static_cast<size_t>(value)];
    operand.dims = place.dims, operand.strides = place.strides;
    operand.aligned = place.offset * static_cast<int64_t>(size_of(operand.dtype)) % 16 == 0;
    return;
  }
  const Tensor* constant = &made.constant;
  for (const auto& [id, tensor] : schedule.decided)
    if (id == value) constant = &tensor;
  if (operand.constant.data() != constant->data()) operand.constant = *constant;
}

bool fits(const Operand& operand, ir::ValueId value, const Schedule& schedule) {
  if (value == ir::no_value) return true;
  if (operand.constant) return schedule.constant(value)->data() == operand.constant.data();
  const Place& place = schedule.layout.places[static_cast<size_t>(value)];
  return operand.dims == place.dims && operand.strides == place.strides &&
         operand.aligned == (place.offset * static_cast<int64_t>(size_of(operand.dtype)) % 16 == 0);
}

bool fits(const Problem& problem, const Schedule& schedule) {
  for (size_t at = 0; at < problem.inputs.size(); ++at)
    if (!fits(problem.inputs[at], problem.node->inputs[at], schedule)) return false;
  for (size_t at = 0; at < problem.outputs.size(); ++at)
    if (!fits(problem.outputs[at], problem.node->outputs[at], schedule)) return false;
  return true;
}

void fit(Problem& problem, size_t step, const Schedule& schedule) {
  const Problem& made = schedule.steps[step].problem;
  const ir::Node& node = *made.node;
  for (size_t at = 0; at < problem.inputs.size(); ++at)
    fit(problem.inputs[at], made.inputs[at], node.inputs[at], schedule);
  for (size_t at = 0; at < problem.outputs.size(); ++at)
    fit(problem.outputs[at], made.outputs[at], node.outputs[at], schedule);
}

}  // namespace

std::vector<ScheduledStep>& ScheduledSteps::own() {
  if (held_.use_count() > 1) held_ = std::make_shared<Held>(held_->steps);
  else held_->sized.clear();
  return held_->steps;
}

ScheduledSteps::Sized::Sized(const Schedule& schedule) : schedule_(schedule), lock_(schedule.steps.held_->mutex) {}

const Problem& ScheduledSteps::Sized::problem(size_t at) {
  Held& held = *schedule_.steps.held_;
  held.sized.resize(held.steps.size());
  Problem& sized = held.sized[at];
  if (!sized.node) {
    const Problem& made = held.steps[at].problem;
    if (fits(made, schedule_)) return made;  // no other sizes yet
    Problem copy = made;
    sized = std::move(copy);
  }
  fit(sized, at, schedule_);
  return sized;
}

Problem Schedule::problem(size_t step) const {
  Problem sized = steps[step].problem;
  fit(sized, step, *this);
  return sized;
}

}  // namespace tenon::backends
