// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tenon {

/// Whether several threads are worth it on cores that others use, too: where a thread often waits for one that has lost
/// its core, it is faster alone for a while. Times are nanoseconds of one clock.
class StallMeter {
 public:
  /// The thread stood still that long, until `now`, as another was not there.
  void waited(int64_t now, int64_t length);
  /// Whether it runs alone now. After each pause several try again; pauses double while that fails.
  bool is_alone(int64_t now) const { return now < until_; }
  /// Whether it stood still a short time ago.
  bool is_disturbed(int64_t now) const { return now - last_ < memory; }

 private:
  static constexpr int64_t memory = 10'000'000;  // in which waits add up, fading
  static constexpr double most = 2e6;            // of waits in that time; and shortly behind a pause:
  static constexpr double most_on_trial = 5e5;
  static constexpr int64_t trial = 100'000'000;
  static constexpr int64_t first_pause = 20'000'000, longest_pause = 1'000'000'000;
  static constexpr int64_t calm = 1'000'000'000;  // without a pause: the next one is the first again

  double sum_ = 0;
  int64_t last_ = -memory, until_ = 0, pause_ = first_pause;
};

}  // namespace tenon
