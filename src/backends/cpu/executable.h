// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <exception>
#include <map>

#include "backends/executable.h"
#include "backends/kernel.h"
#include "base/thread_pool.h"

namespace tenon::cpu {

/// The kernels of a schedule.
class HostCompiled : public backends::Compiled {
 public:
  explicit HostCompiled(backends::Schedule schedule);
  std::unique_ptr<backends::Executable> executable(ThreadPool& threads,
                                                   std::shared_ptr<backends::Arena> arena) const override;
  /// A step of one session, where it cannot be shared.
  std::shared_ptr<const backends::Step> step(size_t at) const;
  size_t packed_bytes() const { return packed_bytes_; }

 private:
  std::vector<std::shared_ptr<const backends::Step>> steps_;
  size_t packed_bytes_ = 0;
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
  struct BoundStep {
    std::shared_ptr<const backends::Step> step;
    std::vector<std::byte*> inputs, outputs;
  };
  struct InputSlot {
    size_t step, operand;
    int64_t bytes;  // offset of the view
  };
  /// Where steps read or write the storage of one graph output.
  struct OutputSlot {
    size_t step, operand;
    bool is_input;
    int64_t bytes;  // offset of the view
  };
  struct OutputStorage {
    std::byte* memory = nullptr;  // that the steps use; null: the arena's
    std::vector<OutputSlot> slots;
  };
  /// Finds the outputs that fill a storage which no other output lies in.
  void find_outputs();
  /// Lets the steps use the targets' memory, or the arena again.
  void aim_at(std::span<const Tensor> targets);
  /// Where an operand of a step lies; inputs of the graph become slots.
  std::byte* place(ir::ValueId value, size_t step, size_t operand, bool is_input);
  void add_operands(size_t step);
  void point_at(std::span<const Tensor> inputs);
  void collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  static void work(void* self, int id);
  /// Lets the pool work; throws what a step threw.
  void run_pool();
  void fail(std::exception_ptr fault);
  const ir::Graph& graph() const { return schedule().graph; }
  const backends::Layout& layout() const { return schedule().layout; }

  std::shared_ptr<const HostCompiled> compiled_;
  ThreadPool& thread_pool_;
  std::map<size_t, Tensor> own_inputs_;  // once asked for
  std::vector<BoundStep> steps_;
  std::vector<std::vector<InputSlot>> slots_;        // per graph input
  std::map<int, size_t> alone_;                      // by storage: the output that fills it
  std::map<size_t, OutputStorage> output_storages_;  // of these outputs
  std::shared_ptr<std::byte> arena_;
  std::byte* workspace_ = nullptr;
  std::vector<double>* times_ = nullptr;    // per step, while profiling
  backends::Observer* observer_ = nullptr;  // of the present run
  std::atomic<bool> failed_{false};
  std::exception_ptr fault_;  // of the first step that failed
};

}  // namespace tenon::cpu
