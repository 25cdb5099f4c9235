// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "plan/plan.h"

namespace tenon::runtime {

/// Runs a graph whose sizes depend on its data, node by node, allocating each result. A node keeps the kernel of the
/// sizes it saw last, so that a network with a few data-dependent nodes still runs at the speed of its kernels.
class DynamicProgram {
 public:
  /// All three must outlive it.
  DynamicProgram(const ir::Graph& graph, const plan::Plan& plan, ThreadPool& thread_pool);
  ~DynamicProgram();
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// Runs `iterations` times and gives each node's mean time.
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);

 private:
  struct Prepared;
  void evaluate(ir::NodeId id, std::span<const Tensor> operands, std::span<Tensor> results);
  std::unique_ptr<Prepared> prepare(ir::NodeId id, std::span<const Tensor> operands);

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  ThreadPool& thread_pool_;
  ThreadPool alone_{1};  // for small nodes
  std::vector<std::unique_ptr<Prepared>> prepared_;  // per node
  std::vector<double> times_;                        // per node, microseconds
};

}  // namespace tenon::runtime
