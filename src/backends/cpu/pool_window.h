// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>

#include "backends/kernel.h"

namespace tenon::cpu {

/// The window of a pool over two spatial axes, padding made explicit. `first` of them: 1 where channels are last.
struct PoolWindow {
  explicit PoolWindow(const backends::Problem& problem, size_t first = 1);
  /// For other sizes of the operands.
  void fit(const backends::Problem& problem, size_t first = 1);
  /// Taps along a spatial axis of `size` that lie inside the padded image, of the window that begins there.
  int64_t padded_taps(size_t axis, int64_t begin, int64_t size) const;
  std::array<int64_t, 2> kernel{}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 4> pads{};  // before both axes, then behind both

 private:
  bool global_, same_ = false, same_upper_ = false;
};

}  // namespace tenon::cpu
