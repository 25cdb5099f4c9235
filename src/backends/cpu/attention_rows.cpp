// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/attention_heads.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu::attention_rows {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

constexpr int64_t most_queries = 4;  // beyond, keys and values that are packed are read faster

/// Attention of few queries, such as the next one of a decoder: keys and values are read once, as they lie.
class RowsStep : public backends::Step {
 public:
  explicit RowsStep(const Problem& problem)
      : queries_(problem.inputs[0]),
        keys_(problem.inputs[1]),
        values_(problem.inputs[2]),
        results_(problem.outputs[0]),
        scale_(problem.node->real("scale", 1)),
        nan_to_zero_(problem.node->integer("nan_to_zero", 0) != 0),
        epilogue_(epilogue_of(*problem.node)),
        ops_(row_ops(isa_for(problem))) {
    const Dims &q = problem.inputs[0].dims, &k = problem.inputs[1].dims;
    const size_t rank = q.rank();
    m_ = q[rank - 2], d_ = q.back(), n_ = k[rank - 2], e_ = problem.inputs[2].dims.back();
    for (size_t axis = 0; axis + 2 < rank; ++axis) heads_ *= q[axis];
    if (rank > 2) share_ = q[rank - 3] / k[rank - 3];
    if (problem.inputs.size() > 3 && problem.inputs[3]) mask_ = AttentionMask(problem.inputs[3].dims, q);
    own_ = set_apart(static_cast<size_t>(n_ + d_) * sizeof(float));
    threads_ = problem.threads;
  }
  size_t workspace_bytes() const override { return own_ * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* const scores = reinterpret_cast<float*>(worker.workspace + own_ * static_cast<size_t>(worker.id));
    int64_t begin, end;
    worker.share(heads_ * m_, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) attend(inputs, outputs, unit / m_, unit % m_, scores);
  }

 private:
  void attend(std::byte* const* inputs, std::byte* const* outputs, int64_t head, int64_t row, float* scores) const {
    const auto at = [&](int input) { return reinterpret_cast<const float*>(inputs[input]); };
    float* const query = scores + n_;
    std::copy_n(at(0) + queries_.offset(head) + row * queries_.pitch, d_, query);
    ops_.scale(query, scale_, d_);
    const float* k = at(1) + keys_.offset(head / share_);
    if (keys_.pitch == d_) ops_.dots(scores, k, query, n_, d_);
    else
      for (int64_t key = 0; key < n_; ++key) ops_.dots(scores + key, k + key * keys_.pitch, query, 1, d_);
    if (mask_) ops_.binary(expr::Id::Add, scores, scores, 1, at(3) + mask_.row(head, row), mask_.column(), n_);
    ops_.softmax(scores, scores, 1, n_, n_);
    for (int64_t key = 0; key < n_ && nan_to_zero_; ++key) scores[key] = scores[key] == scores[key] ? scores[key] : 0.f;
    float* const y = reinterpret_cast<float*>(outputs[0]) + results_.offset(head) + row * results_.pitch;
    ops_.weigh(y, at(2) + values_.offset(head / share_), values_.pitch, scores, n_, e_);
    if (epilogue_.act != expr::Id::Identity) ops_.unary(epilogue_.act, epilogue_.alpha, epilogue_.beta, y, y, e_);
  }

  AttentionHeads queries_, keys_, values_, results_;
  float scale_;
  bool nan_to_zero_;
  AttentionMask mask_;
  Epilogue epilogue_;
  const RowOps& ops_;
  int64_t heads_ = 1, share_ = 1, m_, d_, n_, e_;  // share_: heads that have keys and values in common
  size_t own_;                                     // bytes of a thread
  int threads_;
};

Reason refuses(const Problem& problem) {
  if (const Reason reason = refuses_heads(problem)) return reason;
  const Dims& q = problem.inputs[0].dims;
  return q[q.rank() - 2] > most_queries ? Reason{Reason::shape, "the queries", "at most 4 of a head"} : Reason{};
}

const backends::KernelRegistrar registered({"tenon:DotAttention", "rows", 2, refuses_any<refuses>,
                                            make_on_heads<RowsStep>});

}  // namespace
}  // namespace tenon::cpu::attention_rows
