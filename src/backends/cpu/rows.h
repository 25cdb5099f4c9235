// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>

#include "backends/kernel.h"

namespace tenon::cpu {

/// Operands broadcast over an output's axes, walked as rows of the innermost axis.
class Rows {
 public:
  static constexpr size_t most_operands = 8;
  /// The first `count` inputs of the problem and its first output.
  Rows(const backends::Problem& problem, size_t count);
  /// Whether the innermost axis has stride 0 or 1 in every operand.
  bool contiguous() const;
  int64_t row_length() const { return dims_.back(); }
  int64_t elements() const { return dims_.elements(); }
  /// Copies elements [first, first + count) of an input, counted in the output's order, side by side. T: float,
  /// uint8_t.
  template <class T>
  void gather(size_t operand, const T* from, int64_t first, int64_t count, T* to) const;
  /// Writes elements [first, first + count) of the output.
  template <class T>
  void scatter(const T* from, int64_t first, int64_t count, T* to) const;
  /// How far one element of the row lies from the next: 0 or 1 where rows are contiguous.
  int step(size_t operand) const { return static_cast<int>(strides_[operand][dims_.rank() - 1]); }

  /// How far the first element of a line lies from that of the next.
  int64_t pitch(size_t operand) const { return strides_[operand][dims_.rank() - 2]; }

  /// Whether the innermost axis is short, and the output lies side by side along the two innermost: then lines of these
  /// two are walked as one row.
  bool is_short() const;
  /// The same wherever the output lies.
  bool has_short_lines() const;
  /// Whether two lines or more of the innermost axis fit into `most` elements, and are more than a vector or two.
  bool has_lines(int64_t most) const;
  /// Calls f(offsets, lines) for this worker's share of them, of at most `most` elements.
  template <class F>
  void each_beside(const Worker& worker, F f, int64_t most = most_beside) const {
    const size_t last = dims_.rank() - 1;
    const int64_t lines = std::min(dims_[last - 1], most / dims_[last]);
    const int64_t pieces = (dims_[last - 1] + lines - 1) / lines;
    int64_t begin, end;
    worker.share(dims_.elements() / (dims_[last] * dims_[last - 1]) * pieces, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % pieces * lines, left = std::min(lines, dims_[last - 1] - first);
      const auto visit = [&](const int64_t* at, int64_t) { f(at, left); };
      call(unit / pieces * dims_[last - 1] + first, 0, 0, visit);
    }
  }
  /// Those elements of an input, in `to` where they do not lie side by side.
  template <class T>
  const T* beside(size_t operand, const T* from, int64_t lines, T* to) const;
  /// Whether lines of the output lie side by side. Where they do not, store_apart() writes what is.
  bool is_beside() const;
  template <class T>
  void store_apart(const T* apart, int64_t lines, T* output) const;
  static constexpr int64_t most_beside = 1024;

  /// Calls f(offsets, count) for this worker's rows: offsets of the operands' first elements, the output's last.
  template <class F>
  void each(const Worker& worker, F f) const {
    const size_t last = dims_.rank() - 1;
    int64_t rows = 1;
    for (size_t axis = 0; axis < last; ++axis) rows *= dims_[axis];
    if (rows < 2 * worker.count) {  // few long rows: each is cut
      const int64_t begin = dims_[last] * worker.id / worker.count / 16 * 16;
      const int64_t end =
          worker.id + 1 == worker.count ? dims_[last] : dims_[last] * (worker.id + 1) / worker.count / 16 * 16;
      for (int64_t row = 0; row < rows && begin < end; ++row) call(row, begin, end - begin, f);
      return;
    }
    int64_t begin, end;
    worker.share(rows, begin, end);
    for (int64_t row = begin; row < end; ++row) call(row, 0, dims_[last], f);
  }

 private:
  template <class F>
  void call(int64_t row, int64_t from, int64_t count, const F& f) const {
    const size_t last = dims_.rank() - 1;
    std::array<int64_t, most_operands + 1> offset;
    for (size_t k = 0; k <= count_; ++k) offset[k] = from * strides_[k][last];
    for (size_t axis = last; axis-- > 0;) {
      const int64_t index = row % dims_[axis];
      row /= dims_[axis];
      for (size_t k = 0; k <= count_; ++k) offset[k] += index * strides_[k][axis];
    }
    f(offset.data(), count);
  }

  template <class F>
  void each_piece(size_t operand, int64_t first, int64_t count, F f) const;

  size_t count_;
  Dims dims_;                                    // the output's, merged where every operand allows
  std::array<Dims, most_operands + 1> strides_;  // inputs, then the output; 0 where broadcast
};

}  // namespace tenon::cpu
