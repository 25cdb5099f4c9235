// SPDX-License-Identifier: Apache-2.0
#include "ops/broadcast.h"

namespace tenon::ops {

Strides strides_of(const Dims& dims) {
  Strides strides{};
  uint64_t step = 1;
  for (size_t axis = dims.rank(); axis-- > 0; step *= static_cast<uint64_t>(dims[axis]))
    strides[axis] = static_cast<int64_t>(step);
  return strides;
}

Strides broadcast_strides(const Dims& from, const Dims& to) {
  const Strides own = strides_of(from);
  Strides strides{};
  const size_t shift = to.rank() - from.rank();
  for (size_t axis = 0; axis < from.rank(); ++axis) strides[axis + shift] = from[axis] == 1 ? 0 : own[axis];
  return strides;
}

template <size_t N>
Runs<N>::Runs(const Dims& dims, const std::array<Strides, N>& strides) {
  for (size_t axis = 0; axis < dims.rank(); ++axis) {
    if (dims[axis] == 0) empty_ = true;
    if (empty_) return;
    if (dims[axis] == 1) continue;
    bool joined = sizes_.rank() > 0;
    for (size_t n = 0; n < N && joined; ++n) joined = strides_[n][sizes_.rank() - 1] == strides[n][axis] * dims[axis];
    if (!joined) sizes_.push_back(1);
    const size_t last = sizes_.rank() - 1;
    sizes_[last] *= dims[axis];
    for (size_t n = 0; n < N; ++n) strides_[n][last] = strides[n][axis];
  }
  if (sizes_.rank() == 0) sizes_.push_back(1);
  const size_t inner = sizes_.rank() - 1;
  count = sizes_[inner];
  for (size_t n = 0; n < N; ++n) steps[n] = strides_[n][inner];
}

template <size_t N>
bool Runs<N>::next() {
  if (!started_) {
    started_ = true;
    return !empty_;
  }
  for (size_t axis = sizes_.rank() - 1; axis-- > 0;) {
    for (size_t n = 0; n < N; ++n) offsets[n] += strides_[n][axis];
    if (++index_[axis] < sizes_[axis]) return true;
    for (size_t n = 0; n < N; ++n) offsets[n] -= strides_[n][axis] * sizes_[axis];
    index_[axis] = 0;
  }
  return false;
}

template class Runs<2>;
template class Runs<3>;
template class Runs<4>;

}  // namespace tenon::ops
