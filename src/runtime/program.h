// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "backends/executable.h"
#include "base/thread_pool.h"
#include "plan/bind.h"
#include "runtime/rest_program.h"

namespace tenon::runtime {

/// A plan bound to concrete sizes. Run by one thread at a time.
class Program {
 public:
  /// `plan` and `thread pool` must outlive the program. It shares steps, kernels and packed weights with others of the
  /// plan through `shared`, and takes `arena` where that is on its device and large enough.
  Program(const plan::Plan& plan, const Shapes& shapes, ThreadPool& thread_pool, plan::Shared* shared = nullptr,
          std::shared_ptr<backends::Arena> arena = nullptr);
  /// Whether memory could be planned; otherwise run() goes part by part behind what has fixed sizes, allocating.
  bool is_static() const { return !dynamic_; }
  const ir::Graph& graph() const { return dynamic_ ? graph_ : executable_->schedule().graph; }
  /// Inputs and outputs in the graph's order, of the bound sizes. Outputs refer to memory of the program.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// The same; each target that is not empty gets its output, of whose type and sizes it is, dense.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets);
  /// Sizes of an output; nullopt where they depend on data.
  std::optional<Dims> output_sizes(size_t at) const;
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// The node of a step of `profile`; the last one where the step is a pair.
  ir::NodeId node_of(size_t step) const { return executable_->schedule().steps[step].node; }
  MemoryUse memory() const;
  /// Milliseconds on its device of each of `iterations` runs; empty on the host.
  std::vector<double> device_times(int iterations);
  /// Memory of an input that a run reads in place.
  Tensor input(size_t at);
  /// What runs as a whole; nullptr where sizes depend on data.
  backends::Executable* executable() const { return dynamic_ ? nullptr : executable_.get(); }
  /// The same where its work is put on streams of a device; nullptr elsewhere.
  backends::StreamExecutable* streams() const { return dynamic_ ? nullptr : executable_->streams(); }
  std::shared_ptr<backends::Arena> arena() const { return executable_ ? executable_->arena() : nullptr; }
  /// Sizes it is bound to, by input, in order.
  bool matches(std::span<const Tensor> inputs) const;

 private:
  /// The inputs, and behind them what the first part makes of them.
  std::vector<Tensor> with_head(std::span<const Tensor> inputs);

  ir::Graph graph_;                                   // where sizes depend on data
  std::unique_ptr<backends::Executable> executable_;  // of all, or of what stands before such sizes
  std::unique_ptr<RestProgram> dynamic_;              // of what memory could not be planned for
  std::map<size_t, Tensor> own_inputs_;               // of a dynamic program, once asked for
};

}  // namespace tenon::runtime
