// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_data.h"

#include <algorithm>

#include "base/memory.h"

namespace tenon::cli {

class KeptData::Replayed : public Calibrator {
 public:
  explicit Replayed(const std::vector<CalibrationBatch>& kept) : kept_(kept) {}
  int64_t samples() const override {
    int64_t sum = 0;
    for (const CalibrationBatch& batch : kept_) sum += static_cast<int64_t>(batch.names.size());
    return sum;
  }
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == kept_.size()) return false;
    batch = kept_[at_++];
    return true;
  }

 private:
  const std::vector<CalibrationBatch>& kept_;
  size_t at_ = 0;
};

class KeptData::Keeping : public Calibrator {
 public:
  Keeping(KeptData& all, std::shared_ptr<Calibrator> data) : all_(all), data_(std::move(data)) {
    all_.kept_.clear();
    all_.bytes_ = 0;
  }
  int64_t samples() const override { return data_->samples(); }
  bool next_batch(CalibrationBatch& batch) override {
    if (!data_->next_batch(batch)) {
      all_.complete_ = all_.bytes_ <= all_.most_;
      return false;
    }
    for (const auto& [name, tensor] : batch.inputs) all_.bytes_ += tensor.bytes();
    if (all_.bytes_ <= all_.most_) all_.kept_.push_back(batch);
    else all_.kept_.clear();
    // Who wants no more than there are does not ask for the end.
    read_ += static_cast<int64_t>(batch.names.size());
    if (read_ == data_->samples()) all_.complete_ = all_.bytes_ <= all_.most_;
    return true;
  }

 private:
  KeptData& all_;
  std::shared_ptr<Calibrator> data_;
  int64_t read_ = 0;
};

std::shared_ptr<Calibrator> KeptData::samples() {
  if (complete_) return std::make_shared<Replayed>(kept_);
  return std::make_shared<Keeping>(*this, open_());
}

std::vector<Tensor> KeptOutputs::of(size_t batch, const std::function<std::vector<Tensor>()>& run) {
  if (const auto found = kept_.find(batch); found != kept_.end()) return found->second;
  std::vector<Tensor> outputs = run();
  size_t bytes = 0;
  for (const Tensor& output : outputs) bytes += output.bytes();
  // Where memory was limited, engines and samples come first.
  constexpr int64_t part = 16;
  const int64_t given = given_memory_limit();
  const size_t most = given > 0 ? std::min(most_, static_cast<size_t>(given / part)) : most_;
  if (bytes_ + bytes > most) return outputs;
  bytes_ += bytes;
  std::vector<Tensor>& kept = kept_[batch];
  for (const Tensor& output : outputs) kept.push_back(output.copy());
  return kept;
}

}  // namespace tenon::cli
