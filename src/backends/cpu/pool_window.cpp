// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/pool_window.h"

#include <algorithm>

#include "ops/op.h"

namespace tenon::cpu {

PoolWindow::PoolWindow(const backends::Problem& problem, size_t first) {
  const ir::Node& node = *problem.node;
  const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
  const bool global = ops::has_trait(node.op, ops::Trait::global);
  kernel = global ? std::vector<int64_t>{x[first], x[first + 1]} : node.integers("kernel_shape");
  strides = node.integers("strides", {1, 1});
  dilations = node.integers("dilations", {1, 1});
  pads = node.integers("pads", {0, 0, 0, 0});
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode == "VALID") pads = {0, 0, 0, 0};
  if (!mode.starts_with("SAME")) return;
  for (size_t axis : {size_t{0}, size_t{1}}) {
    const int64_t total = std::max<int64_t>(
        0, (y[axis + first] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - x[axis + first]);
    pads[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
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
