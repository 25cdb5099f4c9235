// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/kernel.h"

namespace tenon::cpu {

/// The window of a pool over two spatial axes, padding made explicit. `first` of them: 1 where channels are last.
struct PoolWindow {
  explicit PoolWindow(const backends::Problem& problem, size_t first = 1);
  /// Taps along a spatial axis of `size` that lie inside the padded image, of the window that begins there.
  int64_t padded_taps(size_t axis, int64_t begin, int64_t size) const;
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: before both axes, then behind both
};

}  // namespace tenon::cpu
