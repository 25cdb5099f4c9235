// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/control_flow.h"
#include "backends/strided_copy.h"
#include "base/check.h"
#include "ops/control_flow.h"

namespace tenon::cpu {
namespace {

using backends::Operand;

/// One entry along an axis of a stack of them.
struct Slice {
  Dims dims, strides;            // of an entry
  int64_t length = 0, step = 0;  // entries; bytes between two
  bool reversed = false;
  bool dense = false;

  Slice(const Operand& stack, ops::LoopForm::Axis along) : dims(stack.dims), strides(stack.strides) {
    const auto axis = static_cast<size_t>(along.axis < 0 ? along.axis + static_cast<int64_t>(dims.rank()) : along.axis);
    length = dims[axis];
    step = strides[axis] * static_cast<int64_t>(size_of(stack.dtype));
    dims.erase(axis), strides.erase(axis);
    reversed = along.reversed;
    dense = Operand{stack.dtype, dims, strides, {}}.dense();
  }
  int64_t bytes_before(int64_t round) const { return (reversed ? length - 1 - round : round) * step; }
};

/// A value that one round gives the next. Rounds write it to one of two places by turns, neither of which is read
/// meanwhile; of the last round that is the node's output, where nothing ends the loop earlier.
struct Carried {
  size_t bytes = 0;
  size_t places[2] = {};  // in the workspace; the first only where the node's output is absent or no dense tensor
  std::byte* memory[2] = {};
  const std::byte* now = nullptr;
  const std::byte* next = nullptr;
  bool stays = false;  // what the body gives is not overwritten by the rounds behind it
};

class LoopStep : public ControlStep {
 public:
  LoopStep(const backends::Problem& problem, const ScheduleKernels& body);
  size_t workspace_bytes() const override { return memory_at_ + block_.bound().bytes(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override;
  void begin_profile() const override { block_.begin_profile(); }
  void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const override {
    block_.add_times(layers, inside, iterations);
  }

 private:
  // Called by the first thread, between two barriers.
  void enter(std::byte* const* inputs, std::byte* const* outputs, std::byte* workspace) const;
  void count(std::byte* const* inputs) const;
  void begin_round() const;
  void end_round() const;
  void carry() const;
  void leave() const;
  /// Lets `work` fail as a step does.
  template <class Work>
  void guarded(const Work& work) const {
    try {
      work();
    } catch (...) {
      faults_.note();
    }
    if (faults_.any()) goes_on_ = false;
  }

  /// Which of its two places a carried value is written to in this round.
  size_t turn() const { return static_cast<size_t>((rounds_ - 1 - round_) & 1); }
  size_t result(size_t carried) const { return form_.first_result() + carried; }
  size_t scan(size_t at) const { return form_.first_scan() + at; }
  std::byte* place_of_scan(size_t at) const { return outputs_[form_.carried + at] + scans_[at].bytes_before(round_); }
  /// Whether the body can write its slice of a scan in its place.
  bool writes_scan(size_t at) const { return problem_.outputs[form_.carried + at] && scans_[at].dense; }

  const backends::Problem problem_;
  const ops::LoopForm form_;
  size_t memory_at_ = 64;  // behind the round and the condition
  const DenseCopies copies_;
  std::vector<Slice> scanned_, scans_;
  std::vector<size_t> slots_;  // in the workspace, of scanned slices that are no dense tensors
  // Of the run under way.
  mutable Block block_;
  mutable std::vector<Carried> carried_;
  mutable std::vector<const std::byte*> entering_;  // inputs of the body
  mutable std::byte* const* outputs_ = nullptr;
  mutable std::byte* workspace_ = nullptr;
  mutable const std::byte* const* stacks_ = nullptr;  // inputs of the node
  mutable int64_t round_ = 0, rounds_ = 0;
  mutable bool goes_on_ = false;
  mutable std::optional<ops::Rounds> limit_;
  mutable Faults faults_;
};

ops::LoopForm form_of(const backends::Problem& problem) {
  const auto form = ops::loop_form(*problem.node);
  TENON_CHECK(form, problem.node->label());
  return *form;
}

LoopStep::LoopStep(const backends::Problem& problem, const ScheduleKernels& body)
    : problem_(problem),
      form_(form_of(problem)),
      copies_(problem_, form_.first_carried(), problem_.inputs.size(), memory_at_),
      block_(body),
      carried_(form_.carried),
      entering_(problem_.inputs.size()) {
  for (size_t at = 0; at < form_.scanned; ++at) {
    const Operand& stack = problem_.inputs[form_.first_scanned() + at];
    scanned_.emplace_back(stack, form_.scanned_axes[at]);
    const auto bytes = static_cast<size_t>(scanned_.back().dims.elements()) * size_of(stack.dtype);
    slots_.push_back(scanned_.back().dense ? 0 : take(memory_at_, bytes));
  }
  for (size_t at = 0; at < form_.scans; ++at) {
    const Operand& stack = problem_.outputs[form_.carried + at];
    if (stack) scans_.emplace_back(stack, form_.scan_axes[at]);
    else scans_.emplace_back(Operand{DType::u8, {INT64_MAX}, {0}, {}}, ops::LoopForm::Axis{});
  }
  for (size_t at = 0; at < form_.carried; ++at) {
    Carried& value = carried_[at];
    value.bytes = dense_bytes(problem_.inputs[form_.first_carried() + at]);
    const Operand& output = problem_.outputs[at];
    for (const size_t place : {0, 1})
      if (place == 1 || !output || !output.dense()) value.places[place] = take(memory_at_, value.bytes);
    const int input = block_.input_of(result(at));
    const bool is_capture = input >= static_cast<int>(form_.first_capture());
    const bool is_itself = input == static_cast<int>(form_.first_carried() + at);
    value.stays = block_.graph().constant(block_.graph().outputs[result(at)]) || is_capture || is_itself;
  }
}

void LoopStep::enter(std::byte* const* inputs, std::byte* const* outputs, std::byte* workspace) const {
  limit_.emplace();
  block_.bound().place_in(workspace + memory_at_);
  outputs_ = outputs, stacks_ = inputs, workspace_ = workspace;
  for (size_t at = 0; at < form_.carried; ++at) {
    Carried& value = carried_[at];
    const bool in_place = problem_.outputs[at] && problem_.outputs[at].dense();
    value.memory[0] = in_place ? outputs[at] : workspace + value.places[0];
    value.memory[1] = workspace + value.places[1];
    value.now = copies_.of(form_.first_carried() + at, inputs, workspace);
  }
  for (size_t at = form_.first_capture(); at < problem_.inputs.size(); ++at)
    entering_[at] = problem_.inputs[at] ? copies_.of(at, inputs, workspace) : nullptr;
  for (size_t at = form_.first_capture(); at < problem_.inputs.size(); ++at)
    block_.bound().aim_input(at, entering_[at]);
  round_ = 0;
  count(inputs);
  // A caller may have bound an output to the memory of what it begins with.
  for (size_t at = 0; goes_on_ && at < form_.carried; ++at)
    if (Carried& value = carried_[at]; value.now == value.memory[turn()]) {
      std::memcpy(value.memory[1 - turn()], value.now, value.bytes);
      value.now = value.memory[1 - turn()];
    }
  if (goes_on_) begin_round();
}

void LoopStep::count(std::byte* const* inputs) const {
  goes_on_ = true;
  rounds_ = INT64_MAX;
  if (form_.counts) {
    if (const Operand& trips = problem_.inputs[0])
      rounds_ = trips.dtype == DType::i64 ? *reinterpret_cast<const int64_t*>(inputs[0])
                                          : *reinterpret_cast<const int32_t*>(inputs[0]);
    if (problem_.inputs[1]) goes_on_ = *inputs[1] != std::byte{0};
  }
  for (const auto* list : {&scanned_, &scans_})
    for (const Slice& slice : *list) rounds_ = std::min(rounds_, slice.length);
  goes_on_ = goes_on_ && rounds_ > 0;
}

void LoopStep::begin_round() const {
  limit_->next(*problem_.node);
  BoundSchedule& bound = block_.bound();
  if (form_.counts) {
    std::memcpy(workspace_, &round_, sizeof round_);
    workspace_[sizeof round_] = std::byte{1};
    entering_[0] = workspace_, entering_[1] = workspace_ + sizeof round_;
    bound.aim_input(0, entering_[0]), bound.aim_input(1, entering_[1]);
  }
  for (size_t at = 0; at < form_.carried; ++at) {
    entering_[form_.first_carried() + at] = carried_[at].now;
    bound.aim_input(form_.first_carried() + at, carried_[at].now);
  }
  for (size_t at = 0; at < form_.scanned; ++at) {
    const size_t input = form_.first_scanned() + at;
    const Slice& slice = scanned_[at];
    entering_[input] = stacks_[input] + slice.bytes_before(round_);
    if (!slice.dense) {
      std::byte* slot = workspace_ + slots_[at];
      backends::strided_copy(slice.dims, size_of(problem_.inputs[input].dtype), entering_[input], slice.strides, slot,
                             backends::dense_strides(slice.dims));
      entering_[input] = slot;
    }
    bound.aim_input(input, entering_[input]);
  }
  // A value that is scanned and carried, too, is written to the scan, where the next round reads it.
  for (size_t at = 0; at < form_.carried; ++at)
    if (bound.can_aim(result(at))) bound.aim_output(result(at), carried_[at].memory[turn()]);
  for (size_t at = 0; at < form_.scans; ++at)
    if (writes_scan(at) && bound.can_aim(scan(at))) bound.aim_output(scan(at), place_of_scan(at));
}

void LoopStep::end_round() const {
  for (size_t at = 0; at < form_.scans; ++at) {
    const Operand& stack = problem_.outputs[form_.carried + at];
    if (!stack) continue;
    const std::byte* from = block_.source(scan(at), entering_);
    if (from != place_of_scan(at))
      backends::strided_copy(scans_[at].dims, size_of(stack.dtype), from, backends::dense_strides(scans_[at].dims),
                             place_of_scan(at), scans_[at].strides);
  }
  goes_on_ = !form_.counts || *block_.source(0, entering_) != std::byte{0};
  carry();
  ++round_;
  goes_on_ = goes_on_ && round_ < rounds_;
  if (goes_on_) begin_round();
}

void LoopStep::carry() const {
  for (size_t at = 0; at < form_.carried; ++at) carried_[at].next = block_.source(result(at), entering_);
  for (size_t at = 0; at < form_.carried; ++at) {
    Carried& value = carried_[at];
    std::byte* own = value.memory[turn()];
    if (value.stays || block_.bound().can_aim(result(at))) continue;
    std::memcpy(own, value.next, value.bytes);
    value.next = own;
  }
  for (Carried& value : carried_) value.now = value.next;
}

void LoopStep::leave() const {
  for (size_t at = 0; at < form_.carried; ++at) {
    const Operand& output = problem_.outputs[at];
    if (output && carried_[at].now != outputs_[at])
      backends::strided_copy(output.dims, size_of(output.dtype), carried_[at].now, backends::dense_strides(output.dims),
                             outputs_[at], output.strides);
  }
}

void LoopStep::run(std::byte* const* inputs, std::byte* const* outputs, const Worker& outer) const {
  const Worker worker = block_.workers(outer);
  if (outer.id >= worker.count) return;
  const bool first = worker.id == 0;
  if (first) guarded([&] { enter(inputs, outputs, worker.workspace); });
  for (worker.sync(); goes_on_; worker.sync()) {
    block_.run(worker, faults_);
    if (first) guarded([&] { end_round(); });
  }
  if (!first) return;
  if (!faults_.any()) leave();
  limit_.reset();
  faults_.rethrow();
}

}  // namespace

std::unique_ptr<ControlStep> make_loop_step(const backends::Problem& problem, const ScheduleKernels& body) {
  return std::make_unique<LoopStep>(problem, body);
}

}  // namespace tenon::cpu
