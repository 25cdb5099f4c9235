// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/attention_heads.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/panels.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/support.h"

namespace tenon::cpu::attention {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Attention a block of queries at a time: their scores, the softmax of these and its product with the values stay in
/// the caches of one core. Keys and values of as many heads as fit into the workspace are packed once before.
class BlocksStep : public backends::Step {
 public:
  /// Rows of queries, keys, values and results may lie apart.
  explicit BlocksStep(const Problem& problem)
      : queries_(problem.inputs[0]),
        keys_at_(problem.inputs[1]),
        values_at_(problem.inputs[2]),
        results_(problem.outputs[0]),
        scale_(problem.node->real("scale", 1)),
        nan_to_zero_(problem.node->integer("nan_to_zero", 0) != 0),
        epilogue_(epilogue_of(*problem.node)),
        isa_(isa_for(problem)),
        ops_(row_ops(isa_)) {
    const Dims &q = problem.inputs[0].dims, &k = problem.inputs[1].dims, &v = problem.inputs[2].dims;
    const size_t rank = q.rank();
    m_ = q[rank - 2], d_ = q.back(), n_ = k[rank - 2], e_ = v.back();
    for (size_t axis = 0; axis + 2 < rank; ++axis) heads_ *= q[axis];
    if (rank > 2) share_ = q[rank - 3] / k[rank - 3];
    if (problem.inputs.size() > 3 && problem.inputs[3]) mask_ = AttentionMask(problem.inputs[3].dims, q);
    const int64_t columns = panel_columns(isa_);
    key_panels_ = (n_ + columns - 1) / columns, value_panels_ = (e_ + columns - 1) / columns;
    keys_ = key_panels_ * columns * d_, values_ = value_panels_ * columns * n_;
    // Scores of a block take a part of L2, and all threads have something to do.
    constexpr int64_t most_scores = 40 << 10, most_rows = 56;
    const int64_t rows = std::clamp<int64_t>(most_scores / std::max<int64_t>(1, n_), 14, most_rows);
    blocks_ = std::max<int64_t>(1, (m_ + rows - 1) / rows);
    block_ = (m_ + blocks_ - 1) / blocks_;
    constexpr int64_t most_packed = int64_t{8} << 20;  // floats
    threads_ = problem.threads;
    // Where threads get as many heads each, or nearly, each packs its own: they are still in its cache when they are
    // read.
    apart_ = heads_ % threads_ == 0 || heads_ >= 8 * threads_;
    if (apart_) together_ = threads_;
    else together_ = std::clamp<int64_t>(most_packed / std::max<int64_t>(1, keys_ + values_), 1, heads_);
    packed_ = set_apart(static_cast<size_t>(together_ * (keys_ + values_)) * sizeof(float));
    const auto own = static_cast<size_t>(block_ * (n_ + (queries_.pitch != d_ ? d_ : 0)));
    scores_ = set_apart(own * sizeof(float));
  }
  size_t workspace_bytes() const override { return packed_ + scores_ * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* packed = reinterpret_cast<float*>(worker.workspace);
    if (apart_) {
      int64_t begin, end;
      worker.share(heads_, begin, end);
      float* own = packed + worker.id * (keys_ + values_);
      for (int64_t head = begin; head < end; ++head) {
        for (int64_t panel = 0; panel < key_panels_ + value_panels_; ++panel) pack(inputs, head, panel, own);
        for (int64_t block = 0; block < blocks_; ++block) attend(inputs, outputs, head, own, block, scores(worker));
      }
      return;
    }
    for (int64_t head = 0; head < heads_; head += together_) {
      const int64_t count = std::min(together_, heads_ - head);
      if (head > 0) worker.sync();
      const int64_t each = key_panels_ + value_panels_;
      int64_t begin, end;
      worker.share(count * each, begin, end);
      for (int64_t unit = begin; unit < end; ++unit)
        pack(inputs, head + unit / each, unit % each, packed + unit / each * (keys_ + values_));
      worker.sync();
      worker.share(count * blocks_, begin, end);
      for (int64_t unit = begin; unit < end; ++unit)
        attend(inputs, outputs, head + unit / blocks_, packed + unit / blocks_ * (keys_ + values_), unit % blocks_,
               scores(worker));
    }
  }

 private:
  float* scores(const Worker& worker) const {
    return reinterpret_cast<float*>(worker.workspace + packed_ + scores_ * static_cast<size_t>(worker.id));
  }

  /// A panel of the keys of a head or, behind those, of its values, to where the head's begin.
  void pack(std::byte* const* inputs, int64_t head, int64_t panel, float* to) const {
    const int64_t columns = panel_columns(isa_);
    const float* k = reinterpret_cast<const float*>(inputs[1]) + keys_at_.offset(head / share_);
    const float* v = reinterpret_cast<const float*>(inputs[2]) + values_at_.offset(head / share_);
    if (panel < key_panels_)
      pack_panel(isa_, k, keys_at_.pitch, true, n_, d_, panel * columns, scale_, to + panel * columns * d_);
    else
      pack_panel(isa_, v, values_at_.pitch, false, e_, n_, (panel - key_panels_) * columns, 1,
                 to + keys_ + (panel - key_panels_) * columns * n_);
  }

  void attend(std::byte* const* inputs, std::byte* const* outputs, int64_t head, const float* packed, int64_t block,
              float* scores) const {
    const int64_t columns = panel_columns(isa_), first = block * block_, rows = std::min(block_, m_ - first);
    if (rows <= 0) return;
    const float* q = reinterpret_cast<const float*>(inputs[0]) + queries_.offset(head) + first * queries_.pitch;
    if (queries_.pitch != d_) {  // side by side: a tile's rows may share few sets of the cache
      float* const dense = scores + block_ * n_;
      for (int64_t row = 0; row < rows; ++row) std::copy_n(q + row * queries_.pitch, d_, dense + row * d_);
      q = dense;
    }
    for (int64_t panel = 0; panel < key_panels_; ++panel)
      multiply_panel(isa_, q, d_, rows, packed + panel * columns * d_, d_, scores + panel * columns, n_,
                     std::min(columns, n_ - panel * columns));
    constexpr int64_t beside = 4;  // rows whose scores are in L1 when they are read again
    for (int64_t row = 0; row < rows; row += beside) {
      const int64_t end = std::min(rows, row + beside);
      for (int64_t at = row; at < end && mask_; ++at)
        ops_.binary(expr::Id::Add, scores + at * n_, scores + at * n_, 1,
                    reinterpret_cast<const float*>(inputs[3]) + mask_.row(head, first + at), mask_.column(), n_);
      ops_.softmax(scores + row * n_, scores + row * n_, end - row, n_, n_);
      for (int64_t at = row * n_; at < end * n_ && nan_to_zero_; ++at)
        scores[at] = scores[at] == scores[at] ? scores[at] : 0.f;
    }
    float* y = reinterpret_cast<float*>(outputs[0]) + results_.offset(head) + first * results_.pitch;
    for (int64_t panel = 0; panel < value_panels_; ++panel)
      multiply_panel(isa_, scores, n_, rows, packed + keys_ + panel * columns * n_, n_, y + panel * columns,
                     results_.pitch, std::min(columns, e_ - panel * columns));
    for (int64_t row = 0; row < rows && epilogue_.act != expr::Id::Identity; ++row, y += results_.pitch)
      ops_.unary(epilogue_.act, epilogue_.alpha, epilogue_.beta, y, y, e_);
  }

  AttentionHeads queries_, keys_at_, values_at_, results_;
  float scale_;
  bool nan_to_zero_, apart_;
  AttentionMask mask_;
  Epilogue epilogue_;
  Isa isa_;
  const RowOps& ops_;
  int64_t heads_ = 1, share_ = 1, m_, d_, n_, e_;      // share_: heads that have keys and values in common
  int64_t key_panels_, value_panels_, keys_, values_;  // of a head; floats of its packed keys and values
  int64_t blocks_, block_, together_;
  size_t packed_, scores_;
  int threads_;
};

const backends::KernelRegistrar registered({"tenon:DotAttention", "blocks", 1, refuses_any<refuses_heads>,
                                            make_on_heads<BlocksStep>, "direct"});

}  // namespace
}  // namespace tenon::cpu::attention
