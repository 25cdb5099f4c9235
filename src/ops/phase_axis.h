// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>

namespace tenon::ops {

/// One axis of a transposed convolution without dilation, its results by phase: result stride * q + r is the sum over d
/// of weight[r + begin - stride * d] * x[q + d], where there is one.
struct PhaseAxis {
  int64_t stride, begin, kernel, in, out;
  /// The weight that meets x[q + d]; there is one from 0 to kernel - 1.
  int64_t tap(int64_t phase, int64_t d) const { return phase + begin - stride * d; }
  /// The least and the greatest d of a phase; no d where first is behind last.
  int64_t first(int64_t phase) const { return -floor_div(kernel - 1 - phase - begin); }
  int64_t last(int64_t phase) const { return floor_div(phase + begin); }
  /// Results of a phase.
  int64_t steps(int64_t phase = 0) const { return std::max<int64_t>(0, (out - phase + stride - 1) / stride); }

 private:
  int64_t floor_div(int64_t a) const { return a >= 0 ? a / stride : -((-a + stride - 1) / stride); }
};

}  // namespace tenon::ops
