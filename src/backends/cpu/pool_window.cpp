// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/pool_window.h"

#include <algorithm>

#include "ops/op.h"

namespace tenon::cpu {

PoolWindow::PoolWindow(const backends::Problem& problem, size_t first)
    : global_(ops::has_trait(problem.node->op, ops::Trait::global)) {
  const ir::Node& node = *problem.node;
  const auto read = [&](const char* name, auto& numbers) {
    const std::vector<int64_t> given = node.integers(name);
    std::copy_n(given.begin(), std::min(given.size(), numbers.size()), numbers.begin());
  };
  read("kernel_shape", kernel), read("strides", strides), read("dilations", dilations);
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "VALID") read("pads", pads);
  same_ = mode.starts_with("SAME"), same_upper_ = mode == "SAME_UPPER";
  fit(problem, first);
}

void PoolWindow::fit(const backends::Problem& problem, size_t first) {
  const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
  if (global_) kernel = {x[first], x[first + 1]};
  for (size_t axis = 0; same_ && axis < 2; ++axis) {
    const int64_t total = std::max<int64_t>(
        0, (y[axis + first] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - x[axis + first]);
    pads[axis] = same_upper_ ? total / 2 : total - total / 2;
    pads[axis + 2] = total - pads[axis];
  }
}

int64_t PoolWindow::padded_taps(size_t axis, int64_t begin, int64_t size) const {
  int64_t count = 0;
  for (int64_t k = 0; k < kernel[axis]; ++k) {
    const int64_t at = begin + k * dilations[axis];
    count += at >= -pads[axis] && at < size + pads[axis + 2];
  }
  return count;
}

}  // namespace tenon::cpu
