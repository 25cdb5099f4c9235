// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "metrics/boxes.h"

namespace tenon::metrics {

/// How scores move from one engine's answers to another's: what is random has no mean, what costs accuracy has.
class Shift {
 public:
  void add(double change);
  /// The next image's boxes: changes of the log-odds of boxes that had a score of 0.1 at least, each with the box of
  /// its class that overlaps it most, by at least 0.5; no change counts beyond 3, and a box that is lost as -3.
  void add(const std::vector<Found>& before, const std::vector<Found>& after);
  int64_t count() const { return count_; }
  /// 0 where nothing was added.
  double mean() const;
  double deviation() const;

 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

}  // namespace tenon::metrics
