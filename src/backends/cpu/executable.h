// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <utility>

#include "backends/cpu/bound_schedule.h"
#include "backends/executable.h"
#include "base/thread_pool.h"

namespace tenon::cpu {

/// The kernels of a schedule.
class HostCompiled : public backends::Compiled {
 public:
  explicit HostCompiled(backends::Schedule schedule, const HostCompiled* like = nullptr)
      : Compiled(std::move(schedule)), kernels_(schedule_, &schedule_, like ? &like->kernels_ : nullptr) {}
  std::unique_ptr<backends::Executable> executable(ThreadPool& threads,
                                                   std::shared_ptr<backends::Arena> arena) const override;
  const ScheduleKernels& kernels() const { return kernels_; }

 private:
  ScheduleKernels kernels_;
};

/// Steps with resolved addresses in one arena, run by all threads of a pool with a barrier behind each.
class HostExecutable : public backends::Executable {
 public:
  HostExecutable(std::shared_ptr<const HostCompiled> compiled, ThreadPool& thread_pool,
                 std::shared_ptr<backends::Arena> arena);
  const backends::Schedule& schedule() const override { return compiled_->schedule(); }
  using Executable::run;
  /// Kernels write to a target where its output has storage of its own.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) override;
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, backends::Observer& observer) override;
  std::byte* address(ir::ValueId value) const override;
  Tensor input(size_t at) override;
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations) override;
  MemoryUse memory() const override;

 private:
  void point_at(std::span<const Tensor> inputs);
  /// Lets the steps use the targets' memory, or the arena again.
  void aim_at(std::span<const Tensor> targets);
  void collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  static void work(void* self, const Worker& worker);
  /// Lets the pool work; throws what a step threw.
  void run_pool();
  const ir::Graph& graph() const { return schedule().graph; }
  const backends::Layout& layout() const { return schedule().layout; }

  std::shared_ptr<const HostCompiled> compiled_;
  ThreadPool& thread_pool_;
  std::map<size_t, Tensor> own_inputs_;  // once asked for
  BoundSchedule bound_;
  std::shared_ptr<std::byte> memory_;       // arena and workspace
  std::vector<double>* times_ = nullptr;    // per step, while profiling
  size_t begin_ = 0, end_ = 0;              // steps that this call of the pool takes, or the first that it leaves
  int64_t expected_ = 100'000;              // nanoseconds of a run; 0: the first worker does all
  backends::Observer* observer_ = nullptr;  // of the present run
  Faults faults_;
};

}  // namespace tenon::cpu
