// SPDX-License-Identifier: Apache-2.0
#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"

namespace tenon::cpu::transpose {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t band = 64;  // rows and columns that a worker turns at a time

/// Sixteen rows of sixteen bytes: afterwards column k of them is row k. Each of four rounds interleaves the first eight
/// rows with the last eight.
void exchange(__m128i (&rows)[16]) {
  for (int round = 0; round < 4; ++round) {
    __m128i next[16];
    for (int at = 0; at < 8; ++at) {
      next[2 * at] = _mm_unpacklo_epi8(rows[at], rows[at + 8]);
      next[2 * at + 1] = _mm_unpackhi_epi8(rows[at], rows[at + 8]);
    }
    std::copy(std::begin(next), std::end(next), std::begin(rows));
  }
}

/// The first bytes of sixteen, 1 to 16, in two moves at most from 4 on.
void store_first(uint8_t* to, const uint8_t* from, int64_t count) {
  if (count >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + count - 8, from + count - 8, 8);
  } else if (count >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + count - 4, from + count - 4, 4);
  } else {
    for (int64_t at = 0; at < count; ++at) to[at] = from[at];
  }
}

/// y[column][row] = x[row][column] of bytes.
void turn_bytes(uint8_t* y, int64_t y_pitch, const uint8_t* x, int64_t x_pitch, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; row += 16) {
    const int64_t high = std::min<int64_t>(16, rows - row);
    for (int64_t column = 0; column < columns; column += 16) {
      const int64_t wide = std::min<int64_t>(16, columns - column);
      __m128i square[16];
      for (int64_t at = 0; at < 16; ++at) {
        const uint8_t* from = x + (row + std::min(at, high - 1)) * x_pitch + column;
        if (wide == 16) {
          square[at] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        } else {
          alignas(16) uint8_t part[16] = {};
          store_first(part, from, wide);
          square[at] = _mm_load_si128(reinterpret_cast<const __m128i*>(part));
        }
      }
      exchange(square);
      for (int64_t at = 0; at < wide; ++at)
        store_first(y + (column + at) * y_pitch + row, reinterpret_cast<const uint8_t*>(&square[at]), high);
    }
  }
}

/// The output's axes with the input's strides, neighbours that stay together merged.
struct Turn {
  std::vector<int64_t> count, from, to;
  Reason reason;

  explicit Turn(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    std::vector<int64_t> perm = problem.node->integers("perm");
    if (perm.empty())
      for (size_t axis = x.dims.rank(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
    for (size_t axis = 0; axis < perm.size(); ++axis) {
      const int64_t size = y.dims[axis], stride = x.strides[static_cast<size_t>(perm[axis])];
      if (size == 1) continue;
      if (!count.empty() && from.back() == stride * size && to.back() == y.strides[axis] * size) {
        count.back() *= size;
        from.back() = stride;
        to.back() = y.strides[axis];
      } else {
        count.push_back(size);
        from.push_back(stride);
        to.push_back(y.strides[axis]);
      }
    }
    if (size_of(x.dtype) != 4 && size_of(x.dtype) != 1) reason = {Reason::element_type, "elements", "1 or 4 bytes"};
    else if (count.size() < 2 || count.size() > 4) reason = {Reason::form, "exchange of two axes"};
    else if (y.dims.elements() == 0) reason = Reason::empty;
    else if (to.back() != 1) reason = {Reason::not_contiguous, "the output's rows"};
    else if (std::count(from.begin(), from.end(), 1) != 1 || from.back() == 1)
      reason = {Reason::not_contiguous, "the input's rows"};
  }
};

/// Squares of the two axes that are innermost on either side, for each index of the others.
class TransposeStep : public backends::Step {
 public:
  TransposeStep(const Turn& turn, size_t element) : is_bytes_(element == 1), loops_(loops(active_isa())) {
    const size_t last = turn.count.size() - 1;
    const auto inner = static_cast<size_t>(std::find(turn.from.begin(), turn.from.end(), 1) - turn.from.begin());
    rows_ = turn.count[last], src_pitch_ = turn.from[last];
    columns_ = turn.count[inner], dst_pitch_ = turn.to[inner];
    size_t slot = 0;
    for (size_t axis = 0; axis < last; ++axis) {
      if (axis == inner) continue;
      count_[slot] = turn.count[axis], from_[slot] = turn.from[axis], to_[slot] = turn.to[axis];
      ++slot;
    }
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const int64_t row_bands = (rows_ + band - 1) / band, column_bands = (columns_ + band - 1) / band;
    int64_t begin, end;
    worker.share(count_[0] * count_[1] * row_bands * column_bands, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t column = unit / row_bands % column_bands * band, row = unit % row_bands * band;
      const int64_t outer = unit / row_bands / column_bands, a = outer / count_[1], b = outer % count_[1];
      const int64_t to = a * to_[0] + b * to_[1] + column * dst_pitch_ + row,
                    from = a * from_[0] + b * from_[1] + row * src_pitch_ + column;
      const int64_t rows = std::min(band, rows_ - row), columns = std::min(band, columns_ - column);
      if (is_bytes_)
        turn_bytes(reinterpret_cast<uint8_t*>(outputs[0]) + to, dst_pitch_,
                   reinterpret_cast<const uint8_t*>(inputs[0]) + from, src_pitch_, rows, columns);
      else
        loops_.turn(reinterpret_cast<uint32_t*>(outputs[0]) + to, dst_pitch_,
                    reinterpret_cast<const uint32_t*>(inputs[0]) + from, src_pitch_, rows, columns);
    }
  }

 private:
  int64_t rows_, columns_, src_pitch_, dst_pitch_;
  int64_t count_[2] = {1, 1}, from_[2] = {0, 0}, to_[2] = {0, 0};
  bool is_bytes_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) { return Turn(problem).reason; }
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<TransposeStep>(Turn(problem), size_of(problem.inputs[0].dtype));
}

const backends::KernelRegistrar registered({"Transpose", "squares", 2, refuses, make});

}  // namespace
}  // namespace tenon::cpu::transpose
