// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "plan/rest.h"
#include "runtime/dynamic.h"

namespace tenon::runtime {

class Program;

/// Runs what stands behind sizes that data decides: a part whose sizes follow from those of its inputs as steps in an
/// arena, bound to them; the nodes between such parts one by one. Run by one thread at a time.
class RestProgram {
 public:
  /// `plan` and `thread_pool` must outlive it.
  RestProgram(std::shared_ptr<const plan::Rest> rest, const plan::Plan& plan, ThreadPool& thread_pool,
              std::shared_ptr<backends::WeightCache> weights);
  ~RestProgram();
  /// The graph's outputs, some in memory of the program, valid until its next run.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  /// The times of nodes and steps, of a run's mean.
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);

 private:
  struct Part;
  /// The part for the sizes of `operands_`; nullptr where it runs node by node.
  Program* bound(Part& part);
  void run(Part& part);
  void begin(std::span<const Tensor> inputs);
  std::vector<Tensor> results() const;

  std::shared_ptr<const plan::Rest> rest_;
  ThreadPool& thread_pool_;
  std::vector<std::unique_ptr<Part>> parts_;
  // Of the run under way.
  std::vector<Tensor> values_;  // by slot
  std::vector<Tensor> operands_, outputs_;
};

}  // namespace tenon::runtime
