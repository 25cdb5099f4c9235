// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/session.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/bound_schedule.h"
#include "backends/kernel.h"

/// Nodes that run their bodies, as steps: all threads walk a body's steps together, without leaving the pool.
namespace tenon::cpu {

/// A body with memory to run in, walked by all threads in lockstep.
class Block {
 public:
  explicit Block(const ScheduleKernels& kernels);
  BoundSchedule& bound() { return bound_; }
  const ir::Graph& graph() const { return bound_.schedule().graph; }
  /// Those of the pool that walk it, as one of them sees them: the first alone where the schedule is for one thread.
  Worker workers(const Worker& outer) const;
  /// Called by each of them, between two barriers; the last of its steps ends with one.
  void run(const Worker& worker, Faults& faults);
  /// What an output is: where the arena or a constant holds it, else `inputs` of the body.
  const std::byte* source(size_t output, const std::vector<const std::byte*>& inputs) const;
  /// The body's input that an output is; -1 where it is none.
  int input_of(size_t output) const { return input_of_[output]; }

  /// From here on steps are timed, from 0.
  void begin_profile();
  void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const;

 private:
  BoundSchedule bound_;
  std::vector<int> input_of_;  // per output
  std::vector<double> times_;  // per step, microseconds
  int64_t rounds_ = 0;
  bool timed_ = false;
};

/// A step that runs bodies. Of one session.
class ControlStep : public backends::Step {
 public:
  bool shared() const override { return false; }
  virtual void begin_profile() const = 0;
  /// Adds the times of the bodies' steps since then, of a run's mean.
  virtual void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const = 0;
};

/// The step of a node whose bodies are these.
std::unique_ptr<ControlStep> make_control_step(const backends::Problem& problem,
                                               const std::vector<std::unique_ptr<ScheduleKernels>>& bodies);
std::unique_ptr<ControlStep> make_loop_step(const backends::Problem& problem, const ScheduleKernels& body);
std::unique_ptr<ControlStep> make_branch_step(const backends::Problem& problem, const ScheduleKernels& yes,
                                              const ScheduleKernels& no);

/// Bytes of an operand's elements side by side.
size_t dense_bytes(const backends::Operand& operand);
/// A region of a workspace, laid out before its address is known.
inline size_t take(size_t& end, size_t bytes) {
  const size_t begin = end;
  end += (bytes + 63) / 64 * 64;
  return begin;
}
/// Operands of a node that are views have dense copies in the workspace, which their bodies read.
class DenseCopies {
 public:
  /// Of the inputs from `first` on.
  DenseCopies(const backends::Problem& problem, size_t first, size_t last, size_t& end);
  /// Where input `at` can be read densely; copies it there.
  const std::byte* of(size_t at, std::byte* const* inputs, std::byte* workspace) const;

 private:
  const backends::Problem& problem_;
  std::vector<size_t> places_;  // per input; past all workspaces where it is dense
};

}  // namespace tenon::cpu
