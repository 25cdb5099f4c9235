// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/weight_cache.h"
#include "base/thread_pool.h"
#include "plan/plan.h"
#include "runtime/tensor_pool.h"

namespace tenon::runtime {

class BodyProgram;

/// Runs a graph whose sizes depend on its data, node by node, allocating each result. A node keeps the kernel of the
/// sizes it saw last, so that a network with a few data-dependent nodes still runs at the speed of its kernels.
class DynamicProgram {
 public:
  /// The first three must outlive it. Packed weights are shared with others through `weights`.
  DynamicProgram(const ir::Graph& graph, const plan::Plan& plan, ThreadPool& thread_pool,
                 std::shared_ptr<backends::WeightCache> weights);
  ~DynamicProgram();
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// Runs `iterations` times and gives each node's mean time.
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// Between these two, times are summed up, from 0.
  void begin_profile();
  void end_profile();
  /// Adds the times since then, of a run's mean, with those of bodies behind them; `inside` is the node that it is the
  /// body of.
  void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const;

 private:
  struct Prepared;
  /// What a node was made ready for. Sizes that grow from round to round come again in the next run, in the same order.
  struct Variants {
    std::vector<std::unique_ptr<Prepared>> all;
    size_t last = 0;
    bool by_content = false;  // its kernel is made for what its small operands hold
  };
  Prepared& prepared_for(ir::NodeId id, std::span<const Tensor> operands);
  void evaluate(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results);
  void evaluate_plainly(const Prepared& prepared, ir::NodeId id, std::span<const Tensor> operands,
                        std::span<Tensor> results);
  using PartOfStep = void (*)(const Prepared&, const Worker&);
  void run_step(Prepared& prepared, ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results);
  void work(Prepared& prepared, int64_t expected, PartOfStep part);
  void evaluate_bodies(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results);
  std::unique_ptr<Prepared> prepare(ir::NodeId id, std::span<const Tensor> operands, bool by_content);
  std::unique_ptr<Prepared> begin_prepared(ir::NodeId id, std::span<const Tensor> operands, bool by_content) const;

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  ThreadPool& thread_pool_;
  std::shared_ptr<backends::WeightCache> weights_;
  ThreadPool alone_;                // for small nodes
  std::vector<char> plain_;         // per node: only the reference kernel runs it
  std::vector<Variants> prepared_;  // per node
  std::map<const ir::Graph*, std::unique_ptr<BodyProgram>> bodies_;
  TensorPool pool_;
  Tensor workspace_;               // of the step that takes most
  std::vector<double> times_;      // per node, microseconds
  std::vector<int64_t> rounds_;    // per node, how often it ran
  std::vector<int64_t> expected_;  // per node, nanoseconds: what the last run took
  std::vector<size_t> uses_;       // per value
  bool profiling_ = false;
  // Of the run under way.
  std::vector<Tensor> values_, operands_, results_;
  std::vector<size_t> left_;  // uses of each value that are to come
};

}  // namespace tenon::runtime
