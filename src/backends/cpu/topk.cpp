// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/sorted_keys.h"

namespace tenon::cpu::topk {
namespace {

using backends::Problem;
using backends::Reason;

constexpr int64_t block = 128;  // elements that are passed over together where none of them is among the best

/// TopK along the last axis: what beats the k-th best so far is put aside, and of that the best k are kept whenever
/// there is twice as much. Equal elements come in order of their index, NaN is largest.
class FilterStep : public backends::Step {
 public:
  explicit FilterStep(const Problem& problem)
      : count_(problem.inputs[0].dims.back()),
        k_(problem.outputs[0].dims.back()),
        rows_(problem.inputs[0].dims.elements() / count_),
        room_(static_cast<size_t>(2 * k_ + block)),
        threads_(problem.threads),
        largest_(problem.node->integer("largest", 1) != 0),
        loops_(loops(active_isa())) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(threads_) * 2 * room_ * sizeof(uint64_t); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* own = reinterpret_cast<uint64_t*>(worker.workspace) + static_cast<size_t>(worker.id) * 2 * room_;
    int64_t begin, end;
    worker.share(rows_, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float* x = reinterpret_cast<const float*>(inputs[0]) + row * count_;
      const std::span<const uint64_t> best = best_of(x, {own, room_}, {own + room_, room_});
      float* values = reinterpret_cast<float*>(outputs[0]) + row * k_;
      int64_t* places = reinterpret_cast<int64_t*>(outputs[1]) + row * k_;
      for (size_t at = 0; at < best.size(); ++at) {
        places[at] = place_of(best[at]);
        values[at] = x[places[at]];
      }
    }
  }

 private:
  /// Falls as an element gets better.
  uint32_t order_of(float value) const { return largest_ ? ~rising(value) : rising(value); }

  /// Whether no element of a block is of that order or better.
  bool is_beaten(const float* x, int64_t count, uint32_t order) const {
    const float best = loops_.fold(largest_ ? Fold::max : Fold::min, Before::none, x, count);
    return best == best && order_of(best) >= order;
  }

  std::span<const uint64_t> best_of(const float* x, std::span<uint64_t> keys, std::span<uint64_t> spare) const {
    const auto k = static_cast<size_t>(k_);
    size_t size = 0;
    uint64_t limit = UINT64_MAX;  // the k-th best so far
    for (int64_t first = 0; first < count_; first += block) {
      const int64_t last = std::min(first + block, count_);
      const auto order = static_cast<uint32_t>(limit >> 32);
      if (limit != UINT64_MAX && is_beaten(x + first, last - first, order)) continue;
      for (int64_t at = first; at < last; ++at) {
        const uint64_t key = sort_key(order_of(x[at]), static_cast<uint32_t>(at));
        keys[size] = key;
        size += key < limit;
      }
      if (size < 2 * k || last == count_) continue;
      std::copy_n(keys.begin(), size, spare.begin());
      std::nth_element(spare.begin(), spare.begin() + k_ - 1, spare.begin() + static_cast<int64_t>(size));
      limit = spare[k - 1];
      size_t kept = 0;
      for (const uint64_t key : keys.first(size)) {
        keys[kept] = key;
        kept += key <= limit;
      }
      size = kept;
    }
    return sorted(keys.first(size), spare.first(size)).first(k);
  }

  int64_t count_, k_, rows_;
  size_t room_;  // keys
  int threads_;
  bool largest_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.outputs.size() < 2 || !problem.outputs[1]) return {Reason::absent, "an output"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  const auto rank = static_cast<int64_t>(problem.inputs[0].dims.rank()), axis = problem.node->integer("axis", -1);
  if (axis != -1 && axis != rank - 1) return {Reason::attribute, "axis", "the last"};
  if (problem.inputs[0].dims.back() > UINT32_MAX) return {Reason::too_many, UINT32_MAX, "entries of the axis"};
  return problem.inputs.size() > 1 && problem.inputs[1].constant ? Reason() : Reason(Reason::not_constant, "k");
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<FilterStep>(problem); }

const backends::KernelRegistrar registered({"TopK", "filter", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::topk
