// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "plan/plan.h"

namespace tenon::explain {

/// How often the values of a tensor that is stored in INT8 did not fit, in the runs so far.
struct Watched {
  std::string name;
  int64_t count = 0, outside = 0;
  double usual = -1;  // the share outside in calibration; below 0: not known
  float least = 0, greatest = 0;
  float low = 0, high = 0;  // what INT8 reaches; equal: not known
  double share() const { return count ? static_cast<double>(outside) / static_cast<double>(count) : 0; }
  /// More than the calibration's share, and more than one in a hundred.
  bool has_left() const;
};

/// Runs the plan once on these inputs and counts, by tensor, the values that INT8 cannot hold: floating point
/// before it is stored, and bytes at an end of their range. Inputs first. Throws Error(unsupported) where the plan is
/// not for the CPU, or its sizes depend on data.
std::vector<Watched> watch_ranges(const plan::Plan& plan, const Shapes& shapes, const std::vector<Tensor>& inputs,
                                  int threads);

}  // namespace tenon::explain
