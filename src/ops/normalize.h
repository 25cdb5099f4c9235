// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tenon::ops {

/// Mean and population variance of a run of numbers.
struct Moments {
  double mean = 0, variance = 0;
};

template <class T>
Moments moments_of(const T* from, int64_t count) {
  Moments moments;
  for (int64_t i = 0; i < count; ++i) moments.mean += static_cast<double>(from[i]);
  moments.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(from[i]) - moments.mean;
    moments.variance += distance * distance;
  }
  moments.variance /= static_cast<double>(count);
  return moments;
}

}  // namespace tenon::ops
