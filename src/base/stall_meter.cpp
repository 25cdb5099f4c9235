// SPDX-License-Identifier: Apache-2.0
#include "base/stall_meter.h"

#include <algorithm>
#include <cmath>

namespace tenon {

void StallMeter::waited(int64_t now, int64_t length) {
  sum_ =
      sum_ * std::exp2(-static_cast<double>(now - last_) / static_cast<double>(memory)) + static_cast<double>(length);
  last_ = now;
  if (sum_ <= (until_ > 0 && now - until_ < trial ? most_on_trial : most)) return;
  pause_ = now - until_ > calm ? first_pause : std::min(2 * pause_, longest_pause);
  until_ = now + pause_;
  sum_ = 0;
}

}  // namespace tenon
