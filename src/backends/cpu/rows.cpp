// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows.h"

#include <algorithm>
#include <cstring>

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

bool Rows::is_short() const { return has_short_lines() && is_beside(); }

bool Rows::has_short_lines() const {
  constexpr int64_t shortest = 33;
  const size_t last = dims_.rank() - 1;
  return last > 0 && dims_[last] < shortest;
}

bool Rows::is_beside() const {
  const size_t last = dims_.rank() - 1;
  return strides_[count_][last] == 1 && strides_[count_][last - 1] == dims_[last];
}

bool Rows::has_lines(int64_t most) const {
  constexpr int64_t least = 64;
  const size_t last = dims_.rank() - 1;
  return last > 0 && 2 * dims_[last] <= most && dims_[last - 1] > 1 && dims_[last - 1] * dims_[last] >= least;
}

namespace {

/// Lines of a few vectors: by pieces of known size, as a call of memmove() would take longer than they do.
template <class T>
void copy_line(const T* from, int64_t count, T* to) {
  constexpr int64_t piece = 32 / sizeof(T);
  int64_t at = 0;
  for (; at + piece <= count; at += piece) std::memcpy(to + at, from + at, piece * sizeof(T));
  for (; at < count; ++at) to[at] = from[at];
}

}  // namespace

template <class T>
const T* Rows::beside(size_t operand, const T* from, int64_t lines, T* to) const {
  const size_t last = dims_.rank() - 1;
  const int64_t width = dims_[last], step = strides_[operand][last], pitch = strides_[operand][last - 1];
  if (step == 1 && pitch == width) return from;
  // All but the first line of repeated ones are copied in larger and larger pieces.
  if (pitch == 0 && step == 1) {
    std::copy_n(from, width, to);
    for (int64_t done = width; done < lines * width; done *= 2)
      std::copy_n(to, std::min(done, lines * width - done), to + done);
    return to;
  }
  for (int64_t line = 0; line < lines; ++line) {
    if (step == 0) std::fill_n(to + line * width, width, from[line * pitch]);
    else if (step == 1) copy_line(from + line * pitch, width, to + line * width);
    else
      for (int64_t at = 0; at < width; ++at) to[line * width + at] = from[line * pitch + at * step];
  }
  return to;
}

template <class T>
void Rows::store_apart(const T* apart, int64_t lines, T* output) const {
  const size_t last = dims_.rank() - 1;
  const int64_t width = dims_[last], step = strides_[count_][last], pitch = strides_[count_][last - 1];
  for (int64_t line = 0; line < lines; ++line) {
    if (step == 1) copy_line(apart + line * width, width, output + line * pitch);
    else
      for (int64_t at = 0; at < width; ++at) output[line * pitch + at * step] = apart[line * width + at];
  }
}

/// Calls f(offset, stride, done, count) for the pieces of rows that make up the elements asked for.
template <class F>
void Rows::each_piece(size_t operand, int64_t first, int64_t count, F f) const {
  const Dims& strides = strides_[operand];
  const size_t last = dims_.rank() - 1;
  std::array<int64_t, Dims::max_rank> index{};
  int64_t rest = first, offset = 0;
  for (size_t axis = last + 1; axis-- > 0;) {
    index[axis] = rest % dims_[axis];
    rest /= dims_[axis];
    if (axis < last) offset += index[axis] * strides[axis];
  }
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(count - done, dims_[last] - index[last]);
    f(offset + index[last] * strides[last], strides[last], done, piece);
    done += piece;
    index[last] = 0;
    for (size_t axis = last; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < dims_[axis]) break;
      offset -= dims_[axis] * strides[axis];
      index[axis] = 0;
    }
  }
}

template <class T>
void Rows::gather(size_t operand, const T* from, int64_t first, int64_t count, T* to) const {
  each_piece(operand, first, count, [&](int64_t offset, int64_t stride, int64_t done, int64_t piece) {
    const T* source = from + offset;
    for (int64_t at = 0; at < piece; ++at) to[done + at] = source[at * stride];
  });
}

template <class T>
void Rows::scatter(const T* from, int64_t first, int64_t count, T* to) const {
  each_piece(count_, first, count, [&](int64_t offset, int64_t stride, int64_t done, int64_t piece) {
    T* target = to + offset;
    for (int64_t at = 0; at < piece; ++at) target[at * stride] = from[done + at];
  });
}

template const float* Rows::beside(size_t, const float*, int64_t, float*) const;
template const uint8_t* Rows::beside(size_t, const uint8_t*, int64_t, uint8_t*) const;
template void Rows::store_apart(const float*, int64_t, float*) const;
template void Rows::store_apart(const uint8_t*, int64_t, uint8_t*) const;
template void Rows::gather(size_t, const float*, int64_t, int64_t, float*) const;
template void Rows::gather(size_t, const uint8_t*, int64_t, int64_t, uint8_t*) const;
template void Rows::scatter(const float*, int64_t, int64_t, float*) const;
template void Rows::scatter(const uint8_t*, int64_t, int64_t, uint8_t*) const;

}  // namespace tenon::cpu
