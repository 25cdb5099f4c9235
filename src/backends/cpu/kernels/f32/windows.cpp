// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/windows.h"

#include <algorithm>

#include "backends/cpu/kernels/support.h"

namespace tenon::cpu {

void plan_windows(WindowPlan& plan, const ConvShape& s, int64_t block_k) {
  const int64_t c = s.in_c / s.groups / s.slices;
  plan.shape = s;
  plan.rows = s.kernel_w > 1 && s.dilation_h == 1 && s.dilation_w == 1 && s.groups == 1 && s.in_pixel == c &&
              s.kernel_w * c <= block_k;
  plan.chunks = static_cast<int>(ceil_div(c, block_k));
  plan.chunk = static_cast<int>(plan.chunks == 1 ? c : align_up(ceil_div(c, plan.chunks), 4));
  plan.chunks = static_cast<int>(ceil_div(c, plan.chunk));
  const int64_t unit = plan.rows ? s.kernel_w * c : plan.chunk;
  plan.units = static_cast<int>(s.slices * s.kernel_h * (plan.rows ? 1 : s.kernel_w * plan.chunks));
  const int64_t most = std::max<int64_t>(1, block_k / unit);
  plan.units_per_block = static_cast<int>(ceil_div(plan.units, ceil_div(plan.units, most)));
  plan.k_blocks = static_cast<int>(ceil_div(plan.units, plan.units_per_block));
  plan.k = s.slices * c * s.kernel_h * s.kernel_w;
}

}  // namespace tenon::cpu
