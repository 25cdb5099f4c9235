// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quant/channel_sums.h"
#include "quant/histogram.h"
#include "quant/recipe.h"
#include "runtime/program.h"

namespace tenon::compile {

/// What is done with a value each time it has been computed: first it is rounded, then counted and copied.
struct ObserverContext {
  const quant::Quantiser* round = nullptr;
  const std::vector<float>* factors = nullptr;  ///< of the last axis: x / factor is what is rounded
  quant::Histogram* histogram = nullptr;
  bool channels = false;  ///< keep sums by channel of `channel_axis`
  int channel_axis = -1;
  Tensor* copy = nullptr;  ///< becomes the value, without gaps
};

/// A floating point graph bound to the sizes of a batch, with looks at its values while it runs: memory grows with the
/// number of values, not of batches.
class ValueObserver : private backends::Observer {
 public:
  /// `records` are kernels to use where known. Throws Error(unsupported) where sizes depend on data.
  ValueObserver(ir::Graph graph, const Shapes& shapes, ThreadPool& thread_pool, const plan::Records& records = {});
  /// Looks at a value from now on; values that do not run, as those of a dead branch, are passed over.
  /// What `context` points to must outlive the runs.
  void watch(const std::string& value, const ObserverContext& context);
  void forget() { contexts_.clear(), input_contexts_.clear(); }
  /// Outputs are copies.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  /// Sums of a watched value.
  quant::ChannelSums channels(const std::string& value) const;
  const ir::Graph& graph() const { return program_->graph(); }

 private:
  struct Watched {
    ir::ValueId value;
    ObserverContext context;
    std::vector<quant::ChannelSums> sums;  // by worker
  };
  void after(ir::NodeId node, const Worker& worker) override;
  void examine(Watched& watched, std::byte* data, const Dims& dims, const Dims& strides, const Worker& worker);

  const plan::Layout& layout() const { return program_->executable()->schedule().layout; }

  plan::Plan plan_;
  ThreadPool& thread_pool_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<ir::NodeId> runs_before_;               // per node: the last running node up to it
  std::map<ir::NodeId, std::vector<Watched>> contexts_;  // by the node that completes the value
  std::map<size_t, std::vector<Watched>> input_contexts_;
  std::mutex merging_;
};

}  // namespace tenon::compile
