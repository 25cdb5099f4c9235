// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::quant {

/// Sums over all positions, by channel, and the range widened to hold 0.
struct ChannelSums {
  std::vector<double> sum, squares;
  std::vector<float> low, high;
  int64_t positions = 0;  // per channel
  void grow(size_t channels);
  void merge(const ChannelSums& other);
};

}  // namespace tenon::quant
