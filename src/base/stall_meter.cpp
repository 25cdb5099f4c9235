// SPDX-License-Identifier: Apache-2.0
#include "base/stall_meter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon {

void StallMeter::waited(int64_t now, int64_t length, int64_t run) {
  const double allowed = run < short_run ? share_of_short_runs : share;
  sum_ =
      sum_ * std::exp2(-static_cast<double>(now - last_) / static_cast<double>(memory)) + static_cast<double>(length);
  last_ = now;
  const bool is_trial = until_ > 0 && now - until_ < trial;
  const double limit = is_trial ? std::max(least, more * allowed * static_cast<double>(now - until_))
                                : allowed * static_cast<double>(memory) / std::numbers::ln2;
  if (sum_ <= limit) return;
  pause_ = now - until_ > calm ? first_pause : std::min(2 * pause_, longest_pause);
  until_ = now + pause_;
  sum_ = 0;
}

}  // namespace tenon
