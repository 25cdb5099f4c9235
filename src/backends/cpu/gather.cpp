// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/indices.h"

namespace tenon::cpu::gather {
namespace {

using backends::Problem;
using backends::Reason;

/// Gather along one axis: pieces of `inner` elements are copied by index.
class GatherStep : public backends::Step {
 public:
  explicit GatherStep(const Problem& problem)
      : indices_(*problem.node, problem.inputs[1].dtype), picked_(problem.inputs[1].dims.elements()) {
    const Dims& dims = problem.inputs[0].dims;
    int64_t axis = problem.node->integer("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(dims.rank());
    bytes_ = static_cast<int64_t>(size_of(problem.inputs[0].dtype));
    for (size_t at = 0; at < dims.rank(); ++at)
      if (static_cast<int64_t>(at) < axis) outer_ *= dims[at];
      else if (static_cast<int64_t>(at) > axis) bytes_ *= dims[at];
    size_ = dims[static_cast<size_t>(axis)];
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(outer_ * picked_, begin, end);
    if (begin == end) return;
    int64_t at = begin % picked_, line = begin / picked_ * size_;
    copy_pieces(outputs[0], inputs[0], bytes_, begin, end, [&](int64_t) {
      const int64_t place = line + indices_.at(inputs[1], at, size_);
      if (++at == picked_) at = 0, line += size_;
      return place;
    });
  }

 private:
  Indices indices_;
  int64_t picked_, outer_ = 1, size_ = 0, bytes_;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  return problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GatherStep>(problem); }

const backends::KernelRegistrar registered({"Gather", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::gather
