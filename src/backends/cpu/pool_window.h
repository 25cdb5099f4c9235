// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/kernel.h"

namespace tenon::cpu {

/// The window of a pool over the two spatial axes of channels-last tensors, padding made explicit.
struct PoolWindow {
  explicit PoolWindow(const backends::Problem& problem);
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: before both axes, then behind both
};

}  // namespace tenon::cpu
