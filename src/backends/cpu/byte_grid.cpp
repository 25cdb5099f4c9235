// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/byte_grid.h"

#include <algorithm>
#include <cmath>

namespace tenon::cpu {
namespace {

constexpr int most_divisor = 8;  // the smallest weight of a row is so many steps or fewer
constexpr double most_error = 1e-6;
constexpr int64_t telling = 1024;  // weights, some of which are the smallest there are

/// Sizes of the smallest number that is not zero, and of the largest; infinite and 0 where all are zero.
struct Sizes {
  float least = INFINITY, most = 0;
};
Sizes sizes_of(const float* numbers, int64_t count) {
  Sizes sizes;
  for (int64_t at = 0; at < count; ++at) {
    const float size = std::fabs(numbers[at]);
    if (size > 0) sizes.least = std::min(sizes.least, size);
    if (!(size <= sizes.most)) sizes.most = size;  // NaN comes through
  }
  return sizes;
}

/// Whether all numbers are whole steps, no two of them further from each other than two bytes are.
bool is_grid(const float* row, int64_t k, double step, int& zero) {
  double low = 0, high = 0;
  for (int64_t at = 0; at < k; ++at) {
    const double whole = std::nearbyint(row[at] / step);
    if (!(std::fabs(whole * step - row[at]) <= most_error * std::fabs(row[at]))) return false;
    low = std::min(low, whole), high = std::max(high, whole);
  }
  if (high - low > 255) return false;
  zero = low >= -128 && high <= 127 ? 128 : static_cast<int>(-low);
  return true;
}

/// The step of a row, given the smallest weight of all; 0 where it has none. Symmetric quantisers make the largest 127
/// steps; the smallest may be many in short rows.
double step_of(const float* row, int64_t k, float least_of_all, int& zero) {
  const Sizes sizes = sizes_of(row, k);
  zero = 128;
  if (sizes.most == 0) return 1;
  if (const double step = double{sizes.most} / 127; is_grid(row, k, step, zero)) return step;
  for (const float least : {least_of_all, sizes.least})
    for (int divisor = 1; divisor <= most_divisor; ++divisor) {
      const double steps = std::nearbyint(double{sizes.most} / least * divisor);
      if (!(steps <= 255)) break;
      // Of the largest weight, whose rounding to a float is the smallest part of a step.
      const double step = sizes.most / steps;
      if (is_grid(row, k, step, zero)) return step;
    }
  return 0;
}

}  // namespace

bool may_be_bytes(const float* weights, int64_t n, int64_t k) {
  return n > 0 && k > 0 && byte_grid(weights, std::min(n, telling / k + 1), k).has_value();
}

std::optional<ByteGrid> byte_grid(const float* weights, int64_t n, int64_t k) {
  if (n == 0 || k == 0) return std::nullopt;
  // Most weights are not: their first row tells, before all are read.
  int zero = 0;
  if (step_of(weights, k, sizes_of(weights, std::min(n * k, telling)).least, zero) == 0) return std::nullopt;
  const float least = sizes_of(weights, n * k).least;
  ByteGrid grid;
  grid.bytes.resize(static_cast<size_t>(n * k));
  for (int64_t at = 0; at < n; ++at) {
    const double step = step_of(weights + at * k, k, least, zero);
    if (step == 0) return std::nullopt;
    grid.scales.push_back(static_cast<float>(step)), grid.zeros.push_back(static_cast<uint8_t>(zero));
    for (int64_t i = at * k; i < (at + 1) * k; ++i)
      grid.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(std::nearbyint(weights[i] / step) + zero);
  }
  return grid;
}

}  // namespace tenon::cpu
