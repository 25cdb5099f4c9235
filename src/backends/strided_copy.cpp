// SPDX-License-Identifier: Apache-2.0
#include "backends/strided_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tenon::backends {
namespace {

template <class T>
void copy_row(const std::byte* src, int64_t src_stride, std::byte* dst, int64_t dst_stride, int64_t count) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  for (int64_t at = 0; at < count; ++at) to[at * dst_stride] = from[at * src_stride];
}

/// The first and the last sizeof(T) of each run, which cover it.
template <class T>
void copy_ends(const std::byte* src, int64_t src_step, std::byte* dst, int64_t dst_step, size_t bytes, int64_t runs) {
  for (; runs > 0; --runs, src += src_step, dst += dst_step) {
    T first, last;
    std::memcpy(&first, src, sizeof(T));
    std::memcpy(&last, src + bytes - sizeof(T), sizeof(T));
    std::memcpy(dst, &first, sizeof(T));
    std::memcpy(dst + bytes - sizeof(T), &last, sizeof(T));
  }
}

/// Runs of `bytes` each, so many bytes apart.
void copy_runs(const std::byte* src, int64_t src_step, std::byte* dst, int64_t dst_step, size_t bytes, int64_t runs) {
  struct Sixteen {
    uint64_t of[2];
  };
  constexpr size_t few = 64;
  if (bytes >= sizeof(Sixteen) && bytes <= few) {
    for (; runs > 0; --runs, src += src_step, dst += dst_step) {
      Sixteen last;  // before what the steps write over it
      std::memcpy(&last, src + bytes - sizeof(last), sizeof(last));
      for (size_t at = 0; at + sizeof(last) <= bytes; at += sizeof(last)) std::memcpy(dst + at, src + at, sizeof(last));
      std::memcpy(dst + bytes - sizeof(last), &last, sizeof(last));
    }
  } else if (bytes >= sizeof(uint64_t) && bytes < sizeof(Sixteen)) {
    copy_ends<uint64_t>(src, src_step, dst, dst_step, bytes, runs);
  } else if (bytes >= sizeof(uint32_t) && bytes < sizeof(uint64_t)) {
    copy_ends<uint32_t>(src, src_step, dst, dst_step, bytes, runs);
  } else {
    for (; runs > 0; --runs, src += src_step, dst += dst_step) std::memcpy(dst, src, bytes);
  }
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
  const bool in_runs = axes > 1 && from[axes - 1] == 1 && to[axes - 1] == 1;
  const int row = in_runs ? axes - 2 : axes - 1;  // innermost, or that of runs
  const auto bytes = static_cast<int64_t>(size);
  // A short row of elements costs more around it than in it: the longest axis is walked innermost instead.
  constexpr int64_t short_row = 8;
  if (!in_runs && count[row] < short_row) {
    const auto longest = static_cast<int>(std::max_element(count, count + row + 1) - count);
    std::swap(count[longest], count[row]), std::swap(from[longest], from[row]), std::swap(to[longest], to[row]);
  }
  int64_t index[Dims::max_rank + 1] = {};
  for (;;) {
    if (in_runs) {
      copy_runs(src, from[row] * bytes, dst, to[row] * bytes, static_cast<size_t>(count[axes - 1]) * size, count[row]);
    } else if (from[row] == 1 && to[row] == 1) {
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
      src += from[axis] * bytes;
      dst += to[axis] * bytes;
      if (++index[axis] < count[axis]) break;
      src -= from[axis] * count[axis] * bytes;
      dst -= to[axis] * count[axis] * bytes;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace tenon::backends
