// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"
#include "ops/op.h"

namespace tenon::cpu::max_unpool {
namespace {

using backends::Problem;
using backends::Reason;

/// Each element goes where its index says, the last of those that meet stays; all else is zero.
class MaxUnpoolStep : public backends::Step {
 public:
  explicit MaxUnpoolStep(const Problem& problem)
      : node_(*problem.node), elements_(problem.inputs[0].dims.elements()), size_(problem.outputs[0].dims.elements()) {}

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* places = reinterpret_cast<const int64_t*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(size_, begin, end);
    std::memset(y + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
    // Every worker looks at all of them, so that none waits for one that has failed.
    for (int64_t at = 0; at < elements_; ++at) {
      const int64_t place = places[at];
      if (place < 0 || place >= size_)
        ops::fail_at(node_, "index " + std::to_string(place) + " is outside " + std::to_string(size_) + " elements");
      if (place >= begin && place < end) y[place] = x[at];
    }
  }

 private:
  ir::Node node_;
  int64_t elements_, size_;
};

/// The sizes that indices count in, where nothing is padded behind them.
Dims unpooled(const ir::Node& node, const Dims& x) {
  const auto kernel = node.integers("kernel_shape");
  const auto strides = node.integers("strides"), pads = node.integers("pads");
  Dims dims{x[0], x[1]};
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const int64_t padded = pads.empty() ? 0 : pads[axis] + pads[axis + kernel.size()];
    dims.push_back((x[axis + 2] - 1) * (strides.empty() ? 1 : strides[axis]) + kernel[axis] - padded);
  }
  return dims;
}

Reason refuses(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.inputs[1].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  if (!(problem.inputs[1].dims == problem.inputs[0].dims)) return {Reason::shape, "indices", "the input's sizes"};
  if (!(unpooled(*problem.node, problem.inputs[0].dims) == problem.outputs[0].dims))
    return {Reason::shape, "the output", "no padding"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<MaxUnpoolStep>(problem); }

const backends::KernelRegistrar registered({"MaxUnpool", "places", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::max_unpool
