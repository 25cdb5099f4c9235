#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tenon::ops {

/// Numbers that were rounded to nearest, such that their sum hardly changes by that: those nearest to the middle
/// between two numbers are rounded the other way while that brings the sum closer to what it was. Where weights
/// multiply values that are alike, as in a window, it is the sum of their errors that reaches the result.
/// `rounded`: `count` numbers, each `exact`'s nearest. `other(exact)`: the number on the exact one's other side;
/// infinite or NaN where there is none.
template <class Other>
void keep_sum(const float* exact, int64_t count, float* rounded, const Other& other) {
  // First those that are at least so far from what they were rounded to, in units of what they would be turned by: the
  // farthest err least more when they are turned.
  constexpr float distances[] = {0.3f, 0};
  // What may remain of the sum of errors, in units of the largest of them.
  constexpr double near_enough = 0.5;
  double sum = 0;
  float largest = 0;
  for (int64_t at = 0; at < count; ++at) {
    const float error = rounded[at] - exact[at];
    sum += error;
    largest = std::max(largest, std::abs(error));
  }
  for (const float distance : distances)
    for (int64_t at = 0; at < count; ++at) {
      if (!(std::abs(sum) > largest * near_enough)) return;
      const float error = rounded[at] - exact[at];
      if (error * sum <= 0) continue;
      const float beyond = other(exact[at]), turn = beyond - rounded[at];
      const bool turned = error * turn >= 0, near = std::abs(error) < distance * std::abs(turn);
      if (turned || near || !(std::abs(turn) < 2 * std::abs(sum))) continue;
      rounded[at] = beyond;
      sum += turn;
    }
}

}  // namespace tenon::ops
