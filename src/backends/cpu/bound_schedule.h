// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <vector>

#include "backends/cpu/schedule_kernels.h"
#include "base/faults.h"

namespace tenon::cpu {

/// Steps of a schedule with resolved addresses: an arena, behind it the workspace, inputs and constants elsewhere.
class BoundSchedule {
 public:
  explicit BoundSchedule(const ScheduleKernels& kernels);
  const backends::Schedule& schedule() const { return kernels_.schedule(); }
  size_t steps() const { return steps_.size(); }
  const backends::Step& step(size_t at) const { return *steps_[at].step; }
  const std::string& tactic(size_t at) const { return kernels_.tactic(at); }
  /// Bytes of arena and workspace together.
  size_t bytes() const { return workspace_at_ + workspace_bytes_; }
  /// Gives it that memory, aligned to 64 bytes.
  void place_in(std::byte* memory);
  std::byte* workspace() const { return memory_ + workspace_at_; }

  void aim_input(size_t at, const std::byte* memory);
  /// Whether an output fills a storage which no other value that is an output lies in.
  bool can_aim(size_t output) const;
  /// Lets the steps use this memory for such an output, or for null the arena again.
  void aim_output(size_t output, std::byte* memory);
  /// Where a value of the arena lies now.
  std::byte* address(ir::ValueId value) const;

  /// One thread's part of a step.
  void run(size_t step, const Worker& worker) const {
    const BoundStep& bound = steps_[step];
    bound.step->run(operands_.data() + bound.inputs, operands_.data() + bound.outputs, worker);
  }

 private:
  struct BoundStep {
    std::shared_ptr<const backends::Step> step;
    size_t inputs, outputs;  // where they begin among all operands
  };
  /// An operand of a step: a view of an input or of a storage.
  struct Slot {
    size_t operand;
    int64_t bytes;  // offset of the view
  };
  /// A storage that outputs alone decide where it lies.
  struct Aimed {
    std::byte* memory = nullptr;  // null: the arena's
    std::vector<Slot> slots;
  };
  void find_outputs();
  void add_operands(size_t step);
  void add_operand(ir::ValueId value);
  std::byte*& operand(const Slot& slot) { return operands_[slot.operand]; }
  const ir::Graph& graph() const { return schedule().graph; }
  const backends::Layout& layout() const { return schedule().layout; }
  int64_t bytes_before(ir::ValueId value) const;

  const ScheduleKernels& kernels_;
  std::vector<BoundStep> steps_;
  std::vector<std::byte*> operands_;         // of all steps
  std::vector<std::vector<Slot>> inputs_;    // per graph input
  std::map<int, Aimed> aimed_;               // by storage
  std::vector<std::pair<Slot, int>> arena_;  // operands in other storages
  size_t workspace_at_ = 0, workspace_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace tenon::cpu
