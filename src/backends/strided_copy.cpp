// SPDX-License-Identifier: Apache-2.0
#include "backends/strided_copy.h"

#include <cstring>

namespace tenon::backends {
namespace {

template <class T>
void copy_row(const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride, int64_t count) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  for (int64_t at = 0; at < count; ++at) to[at * dst_stride] = from[at * src_stride];
}

}  // namespace

void strided_copy(const Dims& dims, size_t size, const std::byte* src, const Dims& src_strides, std::byte* dst,
                  const Dims& dst_strides) {
  if (dims.elements() == 0) return;
  // Axes that are contiguous together in both layouts are merged; the innermost remaining one is the row.
  int64_t count[Dims::max_rank + 1], from[Dims::max_rank + 1], to[Dims::max_rank + 1];
  int axes = 0;
  for (size_t at = 0; at < dims.rank(); ++at) {
    if (dims[at] == 1) continue;
    if (axes > 0 && from[axes - 1] == src_strides[at] * dims[at] && to[axes - 1] == dst_strides[at] * dims[at]) {
      count[axes - 1] *= dims[at];
      from[axes - 1] = src_strides[at];
      to[axes - 1] = dst_strides[at];
    } else {
      count[axes] = dims[at];
      from[axes] = src_strides[at];
      to[axes] = dst_strides[at];
      ++axes;
    }
  }
  if (axes == 0) count[0] = 1, from[0] = to[0] = 1, axes = 1;
  const int row = axes - 1;
  int64_t index[Dims::max_rank + 1] = {};
  for (;;) {
    if (from[row] == 1 && to[row] == 1) {
      std::memcpy(dst, src, count[row] * size);
    } else {
      switch (size) {
        case 1: copy_row<uint8_t>(src, from[row], dst, to[row], count[row]); break;
        case 2: copy_row<uint16_t>(src, from[row], dst, to[row], count[row]); break;
        case 4: copy_row<uint32_t>(src, from[row], dst, to[row], count[row]); break;
        default: copy_row<uint64_t>(src, from[row], dst, to[row], count[row]); break;
      }
    }
    int axis = row - 1;
    for (; axis >= 0; --axis) {
      src += from[axis] * static_cast<int64_t>(size);
      dst += to[axis] * static_cast<int64_t>(size);
      if (++index[axis] < count[axis]) break;
      src -= from[axis] * count[axis] * static_cast<int64_t>(size);
      dst -= to[axis] * count[axis] * static_cast<int64_t>(size);
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace tenon::backends
