// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tenon {

/// How many threads a quota of the container lets run at once, so that the system never takes all of them off their
/// cores for the rest of a period: now one more than the quota has whole cores, now as many, by what was used.
class CpuAllowance {
 public:
  /// A quota in cores; 0 or at least `threads`: any number may run.
  CpuAllowance(double cores, int threads);
  bool limits() const { return cores_ > 0; }
  /// Whether it is time to ask again.
  bool is_due(int64_t now) const { return now - last_ >= interval; }
  /// Given the time and what the process has used of its CPUs, in nanoseconds.
  int threads(int64_t now, int64_t used);

 private:
  static constexpr int64_t interval = 500'000;
  static constexpr double usable = 0.97;  // of the quota: the rest is for what else the process does
  static constexpr double most = 4e6;     // nanoseconds of a core that may be saved up

  double cores_;
  int all_, few_;
  int64_t last_ = 0, used_ = 0;
  double saved_ = 0;
  bool is_all_ = false;
};

}  // namespace tenon
