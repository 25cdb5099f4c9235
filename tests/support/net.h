// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <tenon/tenon.hpp>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "support/command.h"
#include "support/proto.h"

/// Small networks with random weights, and what tests do with them.
namespace tenon::test {

inline std::string random_weights(const std::string& name, const std::vector<int64_t>& dims, unsigned seed) {
  std::mt19937 random(seed);
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24) - 0.5f;
  return tensor(name, f32, dims, raw(values));
}

/// x (Nx3x8x8) -> a stem, a residual block's worth of convolutions, a pool and a classifier -> y (Nx5).
inline std::string small_net(int64_t batch = -1) {
  const std::string pads = integers("pads", {1, 1, 1, 1});
  return model(input("x", {batch, 3, 8, 8}) + random_weights("w1", {4, 3, 3, 3}, 1) +
               random_weights("w2", {4, 4, 1, 1}, 2) + random_weights("w3", {5, 4}, 3) +
               node("stem", "Conv", {"x", "w1"}, {"a"}, pads) + node("act", "Relu", {"a"}, {"b"}) +
               node("point", "Conv", {"b", "w2"}, {"c"}) + node("sum", "Add", {"c", "b"}, {"d"}) +
               node("pool", "GlobalAveragePool", {"d"}, {"e"}) + node("flat", "Flatten", {"e"}, {"f"}) +
               node("head", "Gemm", {"f", "w3"}, {"y"}, integer("transB", 1)) + output("y"));
}

inline BuildOptions quick_build() {
  BuildOptions options;
  options.threads = 2;
  options.budget_seconds = 0;
  options.timing_cache = "-";
  return options;
}

inline Engine build_net(const Folder& folder, const std::string& bytes, BuildOptions options = quick_build()) {
  folder.write("m.onnx", bytes);
  return build(folder / "m.onnx", options);
}

inline Tensor random_tensor(const Dims& dims, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor(DType::f32, dims);
  float* data = tensor.data<float>();
  for (int64_t at = 0; at < tensor.elements(); ++at)
    data[at] = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24) - 0.5f;
  return tensor;
}

/// `count` samples, each a batch that `make` makes of its number, for the only input.
class Samples : public Calibrator {
 public:
  Samples(unsigned count, std::function<Tensor(unsigned)> make) : count_(count), make_(std::move(make)) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == count_) return false;
    batch.inputs = {{"", make_(at_++)}};
    return true;
  }

 private:
  unsigned count_, at_ = 0;
  std::function<Tensor(unsigned)> make_;
};

/// `count` random batches of that size.
inline Samples random_samples(unsigned count, const Dims& dims) {
  return {count, [dims](unsigned at) { return random_tensor(dims, at); }};
}

inline std::string bytes_of(const Tensor& tensor) { return {tensor.data<char>(), tensor.bytes()}; }

/// "usage: what, why" of the Error that `work` throws; "none".
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what() + (error.why().empty() ? "" : ", " + error.why());
  }
  return "none";
}

/// Elements may be off by the tolerance, in parts of what is expected where that is above one.
inline void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t output = 0; output < got.size(); ++output)
    for (int64_t at = 0; at < got[output].elements(); ++at) {
      const float a = got[output].data<float>()[at], b = expected[output].data<float>()[at];
      ASSERT_NEAR(a, b, tolerance * (1 + std::abs(b))) << "output " << output << " element " << at;
    }
}

}  // namespace tenon::test
