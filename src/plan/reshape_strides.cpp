// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

namespace tenon::plan {

bool reshape_strides(const Dims& dims, const Dims& strides, const Dims& to, Dims& to_strides) {
  // Walks both shapes from the inside, matching groups of axes with equal products.
  to_strides = to;
  size_t from_axis = dims.rank(), to_axis = to.rank();
  while (to_axis > 0 || from_axis > 0) {
    while (from_axis > 0 && dims[from_axis - 1] == 1) --from_axis;
    if (from_axis == 0) {
      while (to_axis > 0) {
        if (to[--to_axis] != 1) return false;
        to_strides[to_axis] = 1;
      }
      return true;
    }
    // A run of source axes that is contiguous: inner stride, total length.
    const int64_t inner = strides[from_axis - 1];
    int64_t run = dims[--from_axis];
    while (from_axis > 0 && (dims[from_axis - 1] == 1 || strides[from_axis - 1] == inner * run))
      run *= dims[--from_axis];
    int64_t filled = 1;
    while (to_axis > 0 && filled < run) {
      --to_axis;
      to_strides[to_axis] = inner * filled;
      filled *= to[to_axis];
      if (filled == 0 || run % filled != 0) return false;
    }
    if (filled != run) return false;
    while (to_axis > 0 && to[to_axis - 1] == 1) to_strides[--to_axis] = inner * filled;
  }
  return true;
}

}  // namespace tenon::plan
