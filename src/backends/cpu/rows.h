#pragma once
#include <array>

#include "backends/backend.h"

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
      std::array<int64_t, Dims::max_rank> index;
      for (int64_t row = 0; row < rows && begin < end; ++row)
        f(static_cast<const int64_t*>(offsets_of(row, begin, index.data()).data()), end - begin);
      return;
    }
    int64_t begin, end;
    worker.share(rows, begin, end);
    if (begin == end) return;
    std::array<int64_t, Dims::max_rank> index;
    std::array<int64_t, most_operands + 1> offset = offsets_of(begin, 0, index.data());
    for (int64_t row = begin; row < end; ++row) {
      f(static_cast<const int64_t*>(offset.data()), dims_[last]);
      for (size_t axis = last; axis-- > 0;) {
        for (size_t k = 0; k <= count_; ++k) offset[k] += strides_[k][axis];
        if (++index[axis] < dims_[axis]) break;
        for (size_t k = 0; k <= count_; ++k) offset[k] -= dims_[axis] * strides_[k][axis];
        index[axis] = 0;
      }
    }
  }
  /// Whether rows are so short that their places, one by one, are walked faster: by each_place.
  bool are_short() const {
    constexpr int64_t least = 16, longest = 4;
    const size_t rank = dims_.rank();
    return rank > 1 && dims_.back() <= longest && dims_[rank - 2] >= least * dims_.back();
  }
  /// Calls f(offsets, steps, count) for every place of a row and this worker's part of neighbouring rows: `steps` from
  /// the place in one row to that in the next.
  template <class F>
  void each_place(const Worker& worker, F f) const {
    const size_t last = dims_.rank() - 1;
    std::array<int64_t, most_operands + 1> steps;
    for (size_t k = 0; k <= count_; ++k) steps[k] = strides_[k][last - 1];
    int64_t outer = 1, begin, end;
    for (size_t axis = 0; axis + 1 < last; ++axis) outer *= dims_[axis];
    worker.share(dims_[last - 1], begin, end);
    std::array<int64_t, Dims::max_rank> index;
    for (int64_t at = 0; at < outer && begin < end; ++at)
      for (int64_t place = 0; place < dims_[last]; ++place)
        f(static_cast<const int64_t*>(offsets_of(at * dims_[last - 1] + begin, place, index.data()).data()),
          static_cast<const int64_t*>(steps.data()), end - begin);
  }

 private:
  /// The offsets of place `from` of a row, and the row's index along all axes but the last.
  std::array<int64_t, most_operands + 1> offsets_of(int64_t row, int64_t from, int64_t* index) const {
    const size_t last = dims_.rank() - 1;
    std::array<int64_t, most_operands + 1> offset;
    for (size_t k = 0; k <= count_; ++k) offset[k] = from * strides_[k][last];
    for (size_t axis = last; axis-- > 0;) {
      index[axis] = row % dims_[axis];
      row /= dims_[axis];
      for (size_t k = 0; k <= count_; ++k) offset[k] += index[axis] * strides_[k][axis];
    }
    return offset;
  }

  template <class F>
  void each_piece(size_t operand, int64_t first, int64_t count, F f) const;

  size_t count_;
  Dims dims_;                                     // the output's, merged where every operand allows
  std::array<Dims, most_operands + 1> strides_;   // inputs, then the output; 0 where broadcast
};

}  // namespace tenon::cpu
