// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/executable.h"
#include "base/thread_pool.h"
#include "plan/bind.h"
#include "runtime/dynamic.h"

namespace tenon::runtime {

class Program;

/// Runs a body with operands of any sizes: as steps in one arena where its sizes follow from theirs, which were the
/// same the last time; else node by node. The steps are made for the first sizes, and bound to others.
class BodyProgram {
 public:
  /// As DynamicProgram has it.
  BodyProgram(const ir::Graph& body, const plan::Plan& plan, ThreadPool& thread_pool,
              std::shared_ptr<backends::WeightCache> weights);
  ~BodyProgram();
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  void begin_profile();
  void end_profile();
  void add_times(std::vector<LayerTime>& layers, const std::string& inside, int iterations) const;
  /// Microseconds that a profile took beside the runs.
  double profiling_time() const { return extra_; }

 private:
  /// Of an input, as far as a plan depends on it.
  struct Seen {
    DType dtype = DType::undefined;
    Dims dims;
    bool operator==(const Seen&) const = default;
  };
  void bind_whole(std::span<const Tensor> inputs);
  std::vector<Tensor> run_whole(std::span<const Tensor> inputs);

  const ir::Graph& body_;
  ThreadPool& thread_pool_;
  std::shared_ptr<backends::WeightCache> weights_;
  ThreadPool alone_;
  DynamicProgram nodes_;
  plan::Plan host_;  // of the body: what runs it is the host
  plan::Shared shared_;
  std::vector<Seen> seen_;                 // inputs of the last run
  bool tried_ = false;                     // to bind to these
  bool fits_ = false;                      // the whole is for these
  bool is_whole_ = true;                   // no size in it depends on data
  std::unique_ptr<Program> whole_;         // for these, or those before
  std::vector<Tensor> outputs_, targets_;  // of the run under way
  bool profiling_ = false;
  std::vector<LayerTime> layers_;  // of the whole, summed up
  int64_t rounds_ = 0;             // in them
  double extra_ = 0;               // microseconds that timing them took
};

}  // namespace tenon::runtime
