#include "backends/cpu/rows.h"

namespace tenon::cpu {

Rows::Rows(const backends::Problem& problem, size_t count) : count_(count) {
  const backends::Operand& y = problem.outputs[0];
  const size_t rank = y.dims.rank();
  std::array<Dims, most_operands + 1> full;
  full[count] = y.strides;
  for (size_t k = 0; k < count; ++k) {
    const backends::Operand& x = problem.inputs[k];
    full[k] = y.dims;
    const size_t missing = rank - x.dims.rank();
    for (size_t axis = 0; axis < rank; ++axis)
      full[k][axis] = axis < missing || x.dims[axis - missing] == 1 ? 0 : x.strides[axis - missing];
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    if (y.dims[axis] == 1) continue;
    const size_t last = dims_.rank();
    bool merges = last > 0;
    for (size_t k = 0; k <= count && merges; ++k) merges = strides_[k][last - 1] == full[k][axis] * y.dims[axis];
    if (merges) dims_[last - 1] *= y.dims[axis];
    else dims_.push_back(y.dims[axis]);
    for (size_t k = 0; k <= count; ++k) {
      if (merges) strides_[k][last - 1] = full[k][axis];
      else strides_[k].push_back(full[k][axis]);
    }
  }
  if (dims_.rank() == 0) {
    dims_.push_back(1);
    for (Dims& stride : strides_) stride.push_back(1);
  }
}

bool Rows::contiguous() const {
  const size_t last = dims_.rank() - 1;
  for (size_t k = 0; k < count_; ++k)
    if (strides_[k][last] > 1) return false;
  return strides_[count_][last] == 1 || dims_[last] == 1;
}

}  // namespace tenon::cpu
