// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>

#include "backends/cpu/dense.h"
#include "backends/problem.h"

/// What kernels of tenon:DotAttention share.
namespace tenon::cpu {

/// Where the rows of heads lie, in floats.
struct AttentionHeads {
  explicit AttentionHeads(const backends::Operand& operand) : dims(operand.dims), strides(operand.strides) {
    pitch = strides[strides.rank() - 2];
  }
  int64_t offset(int64_t head) const {
    int64_t at = 0;
    for (size_t axis = dims.rank() - 2; axis-- > 0; head /= dims[axis]) at += head % dims[axis] * strides[axis];
    return at;
  }
  Dims dims, strides;
  int64_t pitch;
};

/// Where the rows of a mask lie, which is dense and broadcasts to the scores; one of four axes may repeat.
class AttentionMask {
 public:
  AttentionMask() = default;
  AttentionMask(const Dims& mask, const Dims& q) : rank_(q.rank()), is_there_(true) {
    int64_t step = 1;
    for (size_t at = 0; at < mask.rank(); ++at) {
      const size_t axis = rank_ - 1 - at;
      const int64_t size = mask[mask.rank() - 1 - at];
      if (at == 0) column_ = size > 1 ? 1 : 0;
      else step_[axis] = size > 1 ? step : 0;
      step *= size;
    }
    for (size_t axis = 0; axis + 1 < rank_; ++axis) sizes_[axis] = q[axis];
    if (mask.rank() == rank_ && rank_ == 4) images_ = mask[0];
  }
  explicit operator bool() const { return is_there_; }
  /// From one element of a row to the next: 0 where all have one.
  int column() const { return column_; }
  /// Where the row for a query of a head begins.
  int64_t row(int64_t head, int64_t row) const {
    int64_t at = row * step_[rank_ - 2];
    for (size_t axis = rank_ - 2; axis-- > 1; head /= sizes_[axis]) at += head % sizes_[axis] * step_[axis];
    if (rank_ > 2) at += head % images_ * step_[0];
    return at;
  }

 private:
  std::array<int64_t, 8> step_{}, sizes_{};
  int64_t images_ = INT64_MAX;  // after so many of the first axis it repeats
  size_t rank_ = 0;
  int column_ = 0;
  bool is_there_ = false;
};

/// Why kernels of whole heads do not take a problem, if so.
inline backends::Reason refuses_heads(const backends::Problem& problem) {
  using backends::Reason;
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  const Dims& q = problem.inputs[0].dims;
  if (q.rank() < 2 || q.rank() > 8) return {Reason::shape, "the queries", "two to eight axes"};
  for (size_t at = 0; at < 3; ++at)
    if (problem.inputs[at].dims.elements() == 0) return Reason::empty;
  return {};
}

/// A step on heads. What has rows of numbers side by side is taken as it lies, the rest is copied.
template <class Step>
std::unique_ptr<backends::Step> make_on_heads(const backends::Problem& problem) {
  backends::Problem seen = problem, copied = problem;
  const auto take = [](const backends::Operand& given, backends::Operand& as_seen, backends::Operand& as_copied,
                       bool takes_rows) {
    (takes_rows && given.rows_contiguous() ? as_copied : as_seen).strides = backends::dense_strides(given.dims);
  };
  for (size_t at = 0; at < problem.inputs.size(); ++at)
    if (problem.inputs[at]) take(problem.inputs[at], seen.inputs[at], copied.inputs[at], at < 3);
  take(problem.outputs[0], seen.outputs[0], copied.outputs[0], true);
  return with_dense_copies(copied, std::make_unique<Step>(seen));
}

}  // namespace tenon::cpu
