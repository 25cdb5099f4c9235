// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/resize_axes.h"

namespace tenon::cpu::resize_taps {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;
namespace resizing = ops::resizing;

bool changes(const resizing::Axis& axis) { return axis.in != axis.out || axis.scale != 1; }

/// One axis of a dense tensor: outer x in x inner to outer x out x inner by weighted taps.
struct Pass {
  int64_t outer, in, out, inner;
  std::vector<int64_t> first;   // of each output's taps, and their end
  std::vector<int64_t> offset;  // in elements from the line's start
  std::vector<float> weight;
};

constexpr int64_t tile = 2048;

/// Axes that change. The last one, whose elements are taken one by one and not in vectors, goes first where the others
/// make more of them.
std::vector<size_t> in_order(const std::vector<resizing::Axis>& axes) {
  std::vector<size_t> order;
  double growth = 1;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (!changes(axes[axis])) continue;
    order.push_back(axis);
    if (axis + 1 < axes.size()) growth *= static_cast<double>(axes[axis].out) / static_cast<double>(axes[axis].in);
  }
  if (!order.empty() && order.back() + 1 == axes.size() && growth > 1)
    std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

class TapsStep : public backends::Step {
 public:
  explicit TapsStep(const Problem& problem) : loops_(loops(isa_for(problem))) {
    const std::vector<resizing::Axis> axes = backends::resize_axes(problem);
    Dims now = problem.inputs[0].dims;
    for (const size_t axis : in_order(axes)) {
      Pass pass{1, axes[axis].in, axes[axis].out, 1, {0}, {}, {}};
      for (size_t k = 0; k < now.rank(); ++k)
        if (k != axis) (k < axis ? pass.outer : pass.inner) *= now[k];
      for (const resizing::Taps& taps : resizing::taps_of(*problem.node, axes[axis])) {
        for (size_t k = 0; k < taps.index.size(); ++k) {
          pass.offset.push_back(taps.index[k] * pass.inner);
          pass.weight.push_back(static_cast<float>(taps.weight[k]));
        }
        pass.first.push_back(static_cast<int64_t>(pass.offset.size()));
      }
      now[axis] = axes[axis].out;
      passes_.push_back(std::move(pass));
    }
    for (size_t at = 0; at + 1 < passes_.size(); ++at)
      between_ = std::max(between_, passes_[at].outer * passes_[at].out * passes_[at].inner);
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(between_) * (passes_.size() > 2 ? 2 : 1) * sizeof(float);
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* from = reinterpret_cast<const float*>(inputs[0]);
    for (size_t at = 0; at < passes_.size(); ++at) {
      const bool last = at + 1 == passes_.size();
      float* to = last ? reinterpret_cast<float*>(outputs[0])
                       : reinterpret_cast<float*>(worker.workspace) + static_cast<int64_t>(at % 2) * between_;
      if (passes_[at].inner == 1) lines(passes_[at], from, to, worker);
      else planes(passes_[at], from, to, worker);
      if (!last) worker.sync();
      from = to;
    }
  }

 private:
  /// Outputs of an axis with others behind it: weighted sums of contiguous pieces.
  void planes(const Pass& pass, const float* from, float* to, const Worker& worker) const {
    const int64_t tiles = (pass.inner + tile - 1) / tile;
    int64_t begin, end;
    worker.share(pass.outer * pass.out * tiles, begin, end);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t start = unit % tiles * tile, line = unit / tiles, at = line % pass.out, first = pass.first[at];
      loops_.weighted(to + line * pass.inner + start, from + line / pass.out * pass.in * pass.inner + start,
                      pass.offset.data() + first, pass.weight.data() + first, pass.first[at + 1] - first,
                      std::min(tile, pass.inner - start));
    }
  }
  void lines(const Pass& pass, const float* from, float* to, const Worker& worker) const {
    int64_t begin, end;
    worker.share(pass.outer, begin, end);
    for (int64_t line = begin; line < end; ++line) {
      const float* src = from + line * pass.in;
      for (int64_t at = 0; at < pass.out; ++at) {
        float sum = 0;
        for (int64_t k = pass.first[at]; k < pass.first[at + 1]; ++k) sum += pass.weight[k] * src[pass.offset[k]];
        to[line * pass.out + at] = sum;
      }
    }
  }

  std::vector<Pass> passes_;
  int64_t between_ = 0;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  if (problem.node->text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return {Reason::attribute, "coordinate_transformation_mode", "another than tf_crop_and_resize"};
  for (size_t at : {size_t{2}, size_t{3}})
    if (at < problem.inputs.size() && problem.inputs[at] && !problem.inputs[at].constant)
      return {Reason::not_constant, "its scales"};
  if (problem.inputs.size() > 3 && problem.inputs[3] && problem.inputs[3].dtype != DType::i64)
    return {Reason::element_type, "its sizes", "i64"};
  const auto axes = backends::resize_axes(problem);
  if (std::none_of(axes.begin(), axes.end(), changes)) return {Reason::form, "change of sizes"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<TapsStep>(problem); }

const backends::KernelRegistrar registered({"Resize", "taps", 0, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::resize_taps
