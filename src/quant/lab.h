// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quant/histogram.h"
#include "quant/recipe.h"
#include "runtime/program.h"

namespace tenon::quant {

/// Sums over all positions, by channel, and the range widened to hold 0.
struct ChannelSums {
  std::vector<double> sum, squares;
  std::vector<float> low, high;
  int64_t positions = 0;  // per channel
  void grow(size_t channels);
  void merge(const ChannelSums& other);
};

/// What is done with a value each time it has been computed: first it is rounded, then counted and copied.
struct Look {
  const Quantiser* round = nullptr;
  const std::vector<float>* factors = nullptr;  ///< of the last axis: x / factor is what is rounded
  Histogram* histogram = nullptr;
  bool channels = false;  ///< keep sums by channel of `channel_axis`
  int channel_axis = -1;
  Tensor* copy = nullptr;  ///< becomes the value, without gaps
};

/// A floating point graph bound to the sizes of a batch, with looks at its values while it runs: memory grows with the
/// number of values, not of batches.
class Lab : private backends::Observer {
 public:
  /// `records` are kernels to use where known. Throws Error(unsupported) where sizes depend on data.
  Lab(ir::Graph graph, const Shapes& shapes, ThreadPool& thread_pool, const plan::Records& records = {});
  /// Looks at a value from now on; values that do not run, as those of a dead branch, are passed over.
  /// What `look` points to must outlive the runs.
  void watch(const std::string& value, const Look& look);
  void forget() { looks_.clear(), input_looks_.clear(); }
  /// Outputs are copies.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  /// Sums of a watched value.
  ChannelSums channels(const std::string& value) const;
  const ir::Graph& graph() const { return program_->graph(); }

 private:
  struct Watched {
    ir::ValueId value;
    Look look;
    std::vector<ChannelSums> sums;  // by worker
  };
  void after(ir::NodeId node, const Worker& worker) override;
  void examine(Watched& watched, std::byte* data, const Dims& dims, const Dims& strides, const Worker& worker);

  const plan::Layout& layout() const { return program_->executable()->schedule().layout; }

  plan::Plan plan_;
  ThreadPool& thread_pool_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<ir::NodeId> runs_before_;               // per node: the last running node up to it
  std::map<ir::NodeId, std::vector<Watched>> looks_;  // by the node that completes the value
  std::map<size_t, std::vector<Watched>> input_looks_;
  std::mutex merging_;
};

}  // namespace tenon::quant
