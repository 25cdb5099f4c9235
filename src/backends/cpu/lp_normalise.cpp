// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "ops/broadcast.h"

namespace tenon::cpu::lp_normalise {
namespace {

using backends::Problem;
using backends::Reason;

constexpr int64_t tile = 64;  // neighbouring lines done together

/// LpNormalization along any axis: a row at a time, or a tile of lines, which advances through the axis together.
class NormStep : public backends::Step {
 public:
  explicit NormStep(const Problem& problem)
      : roots_(problem.node->integer("p", 2) == 2),
        epsilon_(problem.node->real("epsilon", 0)),
        ops_(row_ops(isa_for(problem))),
        loops_(loops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    int64_t axis = problem.node->integer("axis", -1);
    if (axis < 0) axis += static_cast<int64_t>(dims.rank());
    const auto [outer, size, inner] = ops::around(dims, static_cast<size_t>(axis));
    outer_ = outer, count_ = size, inner_ = inner;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    const int64_t tiles = (inner_ + tile - 1) / tile;
    int64_t begin, end;
    worker.share(outer_ * tiles, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit / tiles * count_ * inner_ + unit % tiles * tile;
      if (inner_ == 1) row(x + first, y + first);
      else lines(x + first, y + first, std::min(tile, inner_ - unit % tiles * tile));
    }
  }

 private:
  Before before() const { return roots_ ? Before::square : Before::absolute; }
  float factor(float sum) const {
    const float norm = std::max(roots_ ? std::sqrt(sum) : sum, epsilon_);
    return norm == 0 ? 0 : 1 / norm;
  }

  void row(const float* x, float* y) const {
    const float all = factor(loops_.fold(Fold::sum, before(), x, count_));
    ops_.binary(expr::Id::Mul, y, x, 1, &all, 0, count_);
  }
  void lines(const float* x, float* y, int64_t width) const {
    float sums[tile] = {};
    for (int64_t at = 0; at < count_; ++at) loops_.fold_into(Fold::sum, before(), sums, x + at * inner_, width);
    for (int64_t at = 0; at < width; ++at) sums[at] = factor(sums[at]);
    for (int64_t at = 0; at < count_; ++at)
      ops_.binary(expr::Id::Mul, y + at * inner_, x + at * inner_, 1, sums, 1, width);
  }

  bool roots_;
  float epsilon_;
  int64_t outer_, count_, inner_;  // lines lie around the axis as in ops::Around
  const RowOps& ops_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  return problem.inputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<NormStep>(problem); }

const backends::KernelRegistrar registered({"LpNormalization", "norms", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::lp_normalise
