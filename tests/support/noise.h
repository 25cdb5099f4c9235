// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <random>

namespace tenon::test {

/// f32, uniform in [-most, most].
inline Tensor noise(const Dims& dims, unsigned seed, float most = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-most, most);
  Tensor tensor(DType::f32, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = uniform(random);
  return tensor;
}

}  // namespace tenon::test
