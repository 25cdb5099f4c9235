// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/cpu/control_flow.h"
#include "backends/strided_copy.h"

namespace tenon::cpu {
namespace {

/// Runs one of two bodies, which write the node's outputs where these are dense.
class BranchStep : public ControlStep {
 public:
  BranchStep(const backends::Problem& problem, const ScheduleKernels& yes, const ScheduleKernels& no)
      : problem_(problem), copies_(problem_, 1, problem_.inputs.size(), memory_at_), blocks_{Block(yes), Block(no)} {
    size_t most = 0;
    for (Block& block : blocks_) most = std::max(most, block.bound().bytes());
    bytes_ = memory_at_ + most;
    inputs_.resize(problem_.inputs.size() - 1);
  }
  size_t workspace_bytes() const override { return bytes_; }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& outer) const override {
    Block& block = blocks_[*inputs[0] != std::byte{0} ? 0 : 1];
    const Worker worker = block.workers(outer);
    if (outer.id >= worker.count) return;
    if (worker.id == 0) enter(block, inputs, outputs, worker.workspace);
    worker.sync();
    block.run(worker, faults_);
    if (worker.id != 0) return;
    if (!faults_.any()) leave(block, outputs);
    faults_.rethrow();
  }

  void begin_profile() const override {
    for (Block& block : blocks_) block.begin_profile();
  }
  void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const override {
    for (const Block& block : blocks_) block.add_times(layers, inside, iterations);
  }

 private:
  void enter(Block& block, std::byte* const* inputs, std::byte* const* outputs, std::byte* workspace) const {
    BoundSchedule& bound = block.bound();
    bound.place_in(workspace + memory_at_);
    for (size_t at = 0; at < inputs_.size(); ++at) {
      inputs_[at] = problem_.inputs[at + 1] ? copies_.of(at + 1, inputs, workspace) : nullptr;
      bound.aim_input(at, inputs_[at]);
    }
    for (size_t at = 0; at < problem_.outputs.size(); ++at)
      if (bound.can_aim(at) && problem_.outputs[at] && problem_.outputs[at].dense()) bound.aim_output(at, outputs[at]);
  }

  /// Copies what does not lie in its place already.
  void leave(const Block& block, std::byte* const* outputs) const {
    for (size_t at = 0; at < problem_.outputs.size(); ++at) {
      const backends::Operand& output = problem_.outputs[at];
      const std::byte* from = block.source(at, inputs_);
      if (output && from != outputs[at])
        backends::strided_copy(output.dims, size_of(output.dtype), from, backends::dense_strides(output.dims),
                               outputs[at], output.strides);
    }
  }

  const backends::Problem problem_;
  size_t memory_at_ = 0, bytes_ = 0;
  const DenseCopies copies_;
  // Of the run under way.
  mutable std::array<Block, 2> blocks_;
  mutable std::vector<const std::byte*> inputs_;  // of the body
  mutable Faults faults_;
};

}  // namespace

std::unique_ptr<ControlStep> make_branch_step(const backends::Problem& problem, const ScheduleKernels& yes,
                                              const ScheduleKernels& no) {
  return std::make_unique<BranchStep>(problem, yes, no);
}

}  // namespace tenon::cpu
