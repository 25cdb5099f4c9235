// SPDX-License-Identifier: Apache-2.0
#include "cli/moved_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::cli {
namespace {

constexpr int64_t most_channels = 4;

bool has_channels_last(const Dims& dims) { return dims[3] <= most_channels && dims[1] > most_channels; }

class MovedData : public Calibrator {
 public:
  MovedData(std::shared_ptr<Calibrator> data, double down, double right)
      : data_(std::move(data)), down_(down), right_(right) {}
  int64_t samples() const override { return data_->samples(); }
  bool next_batch(CalibrationBatch& batch) override {
    if (!data_->next_batch(batch)) return false;
    for (auto& [name, tensor] : batch.inputs)
      if (holds_images(tensor)) tensor = moved(tensor);
    return true;
  }

 private:
  Tensor moved(const Tensor& from) const {
    const Dims& dims = from.dims();
    const bool last = has_channels_last(dims);
    const int64_t planes = last ? dims[0] : dims[0] * dims[1], height = dims[last ? 1 : 2], width = dims[last ? 2 : 3];
    const auto channels = static_cast<size_t>(last ? dims[3] : 1);
    const auto down = static_cast<int64_t>(std::round(down_ * static_cast<double>(height)));
    const auto right = static_cast<int64_t>(std::round(right_ * static_cast<double>(width)));
    Tensor to(DType::f32, dims);
    for (int64_t row = 0; row < planes * height; ++row) {
      const int64_t plane = row / height, y = std::clamp<int64_t>(row % height - down, 0, height - 1);
      const float* source = from.data<float>() + (plane * height + y) * width * static_cast<int64_t>(channels);
      float* target = to.data<float>() + row * width * static_cast<int64_t>(channels);
      for (int64_t x = 0; x < width; ++x, target += channels)
        std::memcpy(target, source + std::clamp<int64_t>(x - right, 0, width - 1) * static_cast<int64_t>(channels),
                    channels * sizeof(float));
    }
    return to;
  }

  std::shared_ptr<Calibrator> data_;
  double down_, right_;
};

}  // namespace

bool holds_images(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  return tensor.dtype() == DType::f32 && dims.rank() == 4 && (dims[1] <= most_channels || dims[3] <= most_channels);
}

std::shared_ptr<Calibrator> moved_data(std::shared_ptr<Calibrator> data, double down, double right) {
  return std::make_shared<MovedData>(std::move(data), down, right);
}

}  // namespace tenon::cli
