// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t band = 64;  // rows and columns that a worker turns at a time

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
    if (size_of(x.dtype) != 4) reason = {Reason::element_type, "elements", "4 bytes"};
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
  explicit TransposeStep(const Turn& turn) : loops_(loops(active_isa())) {
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
    const auto* x = reinterpret_cast<const uint32_t*>(inputs[0]);
    auto* y = reinterpret_cast<uint32_t*>(outputs[0]);
    const int64_t row_bands = (rows_ + band - 1) / band, column_bands = (columns_ + band - 1) / band;
    int64_t begin, end;
    worker.share(count_[0] * count_[1] * row_bands * column_bands, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t column = unit / row_bands % column_bands * band, row = unit % row_bands * band;
      const int64_t outer = unit / row_bands / column_bands, a = outer / count_[1], b = outer % count_[1];
      loops_.turn(y + a * to_[0] + b * to_[1] + column * dst_pitch_ + row, dst_pitch_,
                  x + a * from_[0] + b * from_[1] + row * src_pitch_ + column, src_pitch_, std::min(band, rows_ - row),
                  std::min(band, columns_ - column));
    }
  }

 private:
  int64_t rows_, columns_, src_pitch_, dst_pitch_;
  int64_t count_[2] = {1, 1}, from_[2] = {0, 0}, to_[2] = {0, 0};
  const Loops& loops_;
};

Reason refuses(const Problem& problem) { return Turn(problem).reason; }
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<TransposeStep>(Turn(problem)); }

const backends::KernelRegistrar registered({"Transpose", "squares", 2, refuses, make});

}  // namespace
}  // namespace tenon::cpu
