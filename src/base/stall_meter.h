// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tenon {

/// Whether several threads are worth it on cores that others use, too: where a thread often waits for one that has lost
/// its core, it is faster, or at least steadier, alone for a while. Times are nanoseconds of one clock.
class StallMeter {
 public:
  /// The thread stood still that long, until `now`, as another was not there, in runs that take `run` undisturbed.
  void waited(int64_t now, int64_t length, int64_t run);
  /// Whether it runs alone now. After each pause several try again; pauses double while that fails.
  bool is_alone(int64_t now) const { return now < until_; }

 private:
  static constexpr int64_t memory = 30'000'000;  // in which waits count half
  /// The share of time that may be waited: a wait of a scheduler's slice makes a short run many times as long.
  static constexpr double share = 0.35, share_of_short_runs = 0.1;
  static constexpr int64_t short_run = 1'500'000;
  static constexpr int64_t trial = 100'000'000;  // behind a pause, where more is allowed: of its time, and at least
  static constexpr double more = 1.5, least = 4e6;
  static constexpr int64_t first_pause = 20'000'000, longest_pause = 1'000'000'000;
  static constexpr int64_t calm = 1'000'000'000;  // without a pause: the next one is the first again

  double sum_ = 0;
  int64_t last_ = 0, until_ = 0, pause_ = first_pause;
};

}  // namespace tenon
