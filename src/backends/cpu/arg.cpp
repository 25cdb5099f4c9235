// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "ops/op.h"

namespace tenon::cpu::arg {
namespace {

using backends::Problem;
using backends::Reason;

/// Sizes before, of and after the axis of a node.
struct Axis {
  int64_t outer = 1, count = 1, inner = 1;
  explicit Axis(const Problem& problem) {
    const Dims& dims = problem.inputs[0].dims;
    int64_t axis = problem.node->integer("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(dims.rank());
    for (size_t at = 0; at < dims.rank(); ++at)
      (static_cast<int64_t>(at) < axis ? outer : static_cast<int64_t>(at) == axis ? count : inner) *= dims[at];
  }
};

constexpr int64_t tile = 256;

/// ArgMax and ArgMin: a row by its extreme and a search for it, neighbouring lines together. The first NaN wins over
/// all.
class ArgStep : public backends::Step {
 public:
  explicit ArgStep(const Problem& problem)
      : axis_(problem),
        max_(ops::traits_of(problem.node->op).reduction() == ops::Reduction::largest),
        last_(problem.node->integer("select_last_index", 0) != 0),
        loops_(loops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<int64_t*>(outputs[0]);
    const int64_t tiles = (axis_.inner + tile - 1) / tile;
    int64_t begin, end;
    worker.share(axis_.outer * tiles, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t outer = unit / tiles, first = unit % tiles * tile;
      const float* from = x + outer * axis_.count * axis_.inner + first;
      if (axis_.inner == 1) y[outer] = row(from);
      else lines(from, y + outer * axis_.inner + first, std::min(tile, axis_.inner - first));
    }
  }

 private:
  int64_t row(const float* x) const {
    const float extreme = loops_.fold(max_ ? Fold::max : Fold::min, Before::none, x, axis_.count);
    const auto is = [&](float value) { return value == extreme || (extreme != extreme && value != value); };
    if (last_)
      for (int64_t at = axis_.count; at-- > 0;)
        if (is(x[at])) return at;
    for (int64_t at = 0; at < axis_.count; ++at)
      if (is(x[at])) return at;
    return 0;
  }
  void lines(const float* x, int64_t* y, int64_t width) const {
    float best[tile];
    int32_t place[tile] = {};
    std::copy_n(x, width, best);
    for (int64_t at = 1; at < axis_.count; ++at)
      loops_.arg_into(max_, last_, best, place, x + at * axis_.inner, static_cast<int32_t>(at), width);
    std::copy_n(place, width, y);
  }

  Axis axis_;
  bool max_, last_;
  const Loops& loops_;
};

Reason refuses_arg(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.inputs[0].dims.elements() == 0) return Reason::empty;
  return Axis(problem).count > INT32_MAX ? Reason(Reason::too_many, INT32_MAX, "entries of the axis") : Reason();
}
std::unique_ptr<backends::Step> make_arg(const Problem& problem) { return std::make_unique<ArgStep>(problem); }

const backends::KernelRegistrar arg_max({"ArgMax", "lines", 1, refuses_any<refuses_arg>, make_any<make_arg>});
const backends::KernelRegistrar arg_min({"ArgMin", "lines", 1, refuses_any<refuses_arg>, make_any<make_arg>});

}  // namespace
}  // namespace tenon::cpu::arg
