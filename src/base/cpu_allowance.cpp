// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_allowance.h"

#include <algorithm>
#include <cmath>

namespace tenon {

CpuAllowance::CpuAllowance(double cores, int threads)
    : cores_(cores < threads ? cores * usable : 0),
      all_(threads),
      few_(std::clamp(static_cast<int>(std::floor(cores_)), 1, threads)) {}

int CpuAllowance::threads(int64_t now, int64_t used) {
  if (!limits()) return all_;
  if (last_ > 0) {
    const double gained = cores_ * static_cast<double>(now - last_), spent = static_cast<double>(used - used_);
    saved_ = std::clamp(saved_ + gained - spent, -most, most);
  }
  last_ = now, used_ = used;
  if (saved_ >= most) is_all_ = true;
  if (saved_ <= 0) is_all_ = false;
  return is_all_ ? std::min(all_, few_ + 1) : few_;
}

}  // namespace tenon
