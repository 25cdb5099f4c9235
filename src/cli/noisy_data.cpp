// SPDX-License-Identifier: Apache-2.0
#include "cli/noisy_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <utility>

namespace tenon::cli {
namespace {

constexpr size_t fewest_values = 16, most_looked_at = 65536;
constexpr double most_steps = 65536;

/// Different values in order, of as many as are looked at.
std::vector<float> different(std::span<const float> values) {
  std::vector<float> some;
  const size_t stride = values.size() / most_looked_at + 1;
  for (size_t at = 0; at < values.size(); at += stride)
    if (std::isfinite(values[at])) some.push_back(values[at]);
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

/// The step that all differences are multiples of, up to rounding; 0 for none within 16 bits.
double common_step(const std::vector<float>& sorted) {
  const double first = sorted.front(), range = sorted.back() - first, least = range / most_steps;
  double step = range;
  for (size_t at = 1; at < sorted.size(); ++at) step = std::min(step, double{sorted[at]} - sorted[at - 1]);
  for (size_t at = 1; at < sorted.size() && step > least * 0.9; ++at)
    for (double rest = double{sorted[at]} - sorted[at - 1]; rest > least / 4;)  // Euclid's algorithm
      rest = std::fabs(std::remainder(std::exchange(step, rest), rest));
  if (step < least * 0.9) return 0;
  // From neighbours to the whole range, so that each time the number of steps is beyond doubt.
  for (const float x : sorted)
    if (x > first) step = (x - first) / std::max(1.0, std::round((x - first) / step));
  for (const float x : sorted)
    if (std::fabs(std::remainder(x - first, step)) > step / 20) return 0;
  return step;
}

struct Slices {
  int64_t outer = 1, count = 1, inner = 1;
};

/// Channels of images have scales of their own.
Slices slices_of(const Dims& dims) {
  constexpr int64_t most_channels = 16;
  const size_t axis = dims.rank() == 4 && dims[3] < dims[1] && dims[3] <= 4 ? 3 : 1;
  Slices slices;
  if (dims.rank() < 3 || dims[axis] > most_channels) {
    for (const int64_t size : dims) slices.inner *= size;
    return slices;
  }
  for (size_t at = 0; at < dims.rank(); ++at)
    (at < axis ? slices.outer : at == axis ? slices.count : slices.inner) *= dims[at];
  return slices;
}

void add_noise(Tensor& tensor, std::mt19937& random) {
  const Slices slices = slices_of(tensor.dims());
  float* data = tensor.data<float>();
  std::vector<float> values(static_cast<size_t>(slices.outer * slices.inner));
  for (int64_t slice = 0; slice < slices.count; ++slice) {
    const auto place = [&](int64_t at) {
      return (at / slices.inner * slices.count + slice) * slices.inner + at % slices.inner;
    };
    for (size_t at = 0; at < values.size(); ++at) values[at] = data[place(static_cast<int64_t>(at))];
    const LastBit bit = last_bit(values);
    for (size_t at = 0; at < values.size(); ++at) {
      const double part = (random() >> 8) / static_cast<double>(1 << 23) - 1;
      data[place(static_cast<int64_t>(at))] += static_cast<float>(part * (bit.step + bit.share * values[at]));
    }
  }
}

class NoisyData : public Calibrator {
 public:
  explicit NoisyData(std::shared_ptr<Calibrator> data) : data_(std::move(data)) {}
  int64_t samples() const override { return data_->samples(); }
  bool next_batch(CalibrationBatch& batch) override {
    if (!data_->next_batch(batch)) return false;
    for (auto& [name, tensor] : batch.inputs) {
      if (tensor.dtype() != DType::f32) continue;
      tensor = tensor.copy();
      add_noise(tensor, random_);
    }
    return true;
  }

 private:
  std::shared_ptr<Calibrator> data_;
  std::mt19937 random_{1};
};

}  // namespace

LastBit last_bit(std::span<const float> values) {
  const std::vector<float> sorted = different(values);
  if (sorted.size() < fewest_values) return {};
  if (const double step = common_step(sorted); step > 0) return {step, 0};
  constexpr int mantissa = 23;
  int unused = mantissa;
  for (const float x : sorted)
    if (x != 0) unused = std::min(unused, std::countr_zero(std::bit_cast<uint32_t>(x) | uint32_t{1} << mantissa));
  return {0, std::ldexp(1.0, unused - mantissa)};
}

std::shared_ptr<Calibrator> noisy_data(std::shared_ptr<Calibrator> data) {
  return std::make_shared<NoisyData>(std::move(data));
}

}  // namespace tenon::cli
