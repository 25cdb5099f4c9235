// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// How the sum over K = slices x taps x channels of one group is cut into units, contiguous runs of elements: a kernel
// row where the pixels of a row touch (`rows`), otherwise `chunk` channels of one tap. K blocks are runs of units.
struct WindowPlan {
  ConvShape shape;
  bool rows;
  int chunk, chunks;  // channels per unit and units per tap, when not `rows`
  int units, units_per_block, k_blocks;
  int64_t k;  // elements summed per output
  const void* zeros;  // at least one unit of the value of padding: the source of taps outside the image
};

// Fills everything but `zeros`; a K block holds at most about `block_k` elements.
void plan_windows(WindowPlan& plan, const ConvShape& shape, int64_t block_k);

}  // namespace tenon::cpu
