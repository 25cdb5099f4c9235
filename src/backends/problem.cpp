// SPDX-License-Identifier: Apache-2.0
#include "backends/problem.h"

#include <algorithm>

namespace tenon::backends {

Dims dense_strides(const Dims& dims) {
  Dims strides = dims;
  int64_t stride = 1;
  for (size_t at = dims.rank(); at-- > 0;) {
    strides[at] = stride;
    // Beside a size of 0 the others may be anything; strides mean nothing then.
    if (__builtin_mul_overflow(stride, dims[at], &stride)) stride = 0;
  }
  return strides;
}

size_t extent(const Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
    last += std::max<int64_t>(0, operand.dims[axis] - 1) * operand.strides[axis];
  return operand.dims.elements() == 0 ? 0 : static_cast<size_t>(last) * size_of(operand.dtype);
}

bool all_of(const Problem& problem, DType dtype) {
  const auto fits = [&](const Operand& operand) { return !operand || operand.dtype == dtype; };
  return std::all_of(problem.inputs.begin(), problem.inputs.end(), fits) &&
         std::all_of(problem.outputs.begin(), problem.outputs.end(), fits);
}

bool Operand::dense() const {
  uint64_t stride = 1;  // of sizes whose product has no room where one of them is 0
  for (size_t at = dims.rank(); at-- > 0;) {
    if (dims[at] != 1 && static_cast<uint64_t>(strides[at]) != stride) return false;
    stride *= static_cast<uint64_t>(dims[at]);
  }
  return true;
}

}  // namespace tenon::backends
