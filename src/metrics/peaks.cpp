// SPDX-License-Identifier: Apache-2.0
#include "metrics/peaks.h"

#include <algorithm>
#include <cmath>

namespace tenon::metrics {

Peak Peak::of(const Plane& plane) {
  constexpr int64_t around = 2;
  double sum = 0;
  int64_t row = 0, column = 0;
  for (int64_t y = 0; y < plane.rows; ++y)
    for (int64_t x = 0; x < plane.columns; ++x) {
      sum += plane.at(y, x);
      if (plane.at(y, x) > plane.at(row, column)) row = y, column = x;
    }
  const double top = plane.at(row, column), mean = sum / static_cast<double>(plane.rows * plane.columns);
  const double half = (top + mean) / 2;
  double all = 0, by_x = 0, by_y = 0;
  for (int64_t y = std::max<int64_t>(0, row - around); y <= std::min(plane.rows - 1, row + around); ++y)
    for (int64_t x = std::max<int64_t>(0, column - around); x <= std::min(plane.columns - 1, column + around); ++x) {
      const double above = std::max(0.0, plane.at(y, x) - half);
      all += above, by_x += above * static_cast<double>(x), by_y += above * static_cast<double>(y);
    }
  if (!(all > 0)) return {static_cast<double>(column), static_cast<double>(row), top, top - mean};
  return {by_x / all, by_y / all, top, top - mean};
}

bool stands_alone(const Plane& plane, const Peak& peak) {
  constexpr double most_share = 0.08, most_away = 0.2;  // of places; of the longer side
  constexpr double top_part = 0.25;                     // logits fall slowly
  const double high = peak.top - top_part * peak.height;
  const double reach = std::max(2.0, most_away * static_cast<double>(std::max(plane.rows, plane.columns)));
  int64_t above = 0;
  for (int64_t y = 0; y < plane.rows; ++y)
    for (int64_t x = 0; x < plane.columns; ++x)
      if (plane.at(y, x) > high) {
        ++above;
        if (std::hypot(static_cast<double>(x) - peak.x, static_cast<double>(y) - peak.y) > reach) return false;
      }
  return above > 0 && static_cast<double>(above) <= most_share * static_cast<double>(plane.rows * plane.columns);
}

double nearness(const Peak& one, const Peak& other, const Plane& plane) {
  constexpr double deviation = 0.02;
  const double away =
      std::hypot(one.x - other.x, one.y - other.y) / static_cast<double>(std::max(plane.rows, plane.columns));
  return std::exp(-away * away / (2 * deviation * deviation));
}

}  // namespace tenon::metrics
