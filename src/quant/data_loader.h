// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::quant {

/// Samples of a Calibrator put together to batches of one size, checked against the graph's inputs. Holds one batch of
/// the calibrator's and one of its own.
class DataLoader {
 public:
  /// `graph` has the sizes that batches must have; its inputs' first axis is the batch where `regroups`.
  /// `most` 0: all samples.
  DataLoader(const ir::Graph& graph, Calibrator& data, int64_t most);
  struct Batch {
    std::vector<Tensor> inputs;      // in the graph's order
    std::vector<std::string> names;  // one a sample
    std::string label() const;       // for messages
    /// The sample that element `at` of an input is of; all of them where the input holds no sample a row.
    std::string label_at(const Tensor& input, int64_t at) const;
  };
  /// The next batch. A last one that is not full is filled up with its samples over again. Throws Error(usage) where
  /// the data does not fit the model.
  std::optional<Batch> next();
  int64_t samples() const { return samples_; }
  /// Expected in all; 0: not known.
  int64_t expected() const;

 private:
  struct Sample {
    std::vector<Tensor> inputs;
    std::string name;
  };
  bool refill();
  std::vector<Tensor> ordered(CalibrationBatch& batch) const;
  void check(const Tensor& tensor, size_t input, bool whole) const;

  const ir::Graph& graph_;
  Calibrator& data_;
  int64_t most_, samples_ = 0, batch_ = 1;
  bool regroups_ = false;
  std::deque<Sample> waiting_;
};

}  // namespace tenon::quant
