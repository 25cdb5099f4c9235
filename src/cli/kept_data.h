// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace tenon::cli {

/// Samples that are gone through several times: read and prepared once, as long as they fit into memory set aside.
class KeptData {
 public:
  using Open = std::function<std::shared_ptr<Calibrator>()>;
  explicit KeptData(Open open, size_t most_bytes = size_t{512} << 20) : open_(std::move(open)), most_(most_bytes) {}
  /// All samples from the first on. It must not outlive this, and one is read at a time; tensors must not be changed.
  std::shared_ptr<Calibrator> samples();

 private:
  class Keeping;
  class Replayed;
  Open open_;
  size_t most_, bytes_ = 0;
  std::vector<CalibrationBatch> kept_;
  bool complete_ = false;
};

/// What an engine gives for batches that others are compared with, as long as it fits into memory set aside.
class KeptOutputs {
 public:
  explicit KeptOutputs(size_t most_bytes = size_t{256} << 20) : most_(most_bytes) {}
  /// Of a batch by its number: a copy of what `run` gave where there was room, else what it gives now.
  std::vector<Tensor> of(size_t batch, const std::function<std::vector<Tensor>()>& run);

 private:
  size_t most_, bytes_ = 0;
  std::map<size_t, std::vector<Tensor>> kept_;
};

}  // namespace tenon::cli
