// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>

#include <functional>
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

}  // namespace tenon::cli
