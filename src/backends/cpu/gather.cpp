// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"

namespace tenon::cpu::gather {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// Gather along one axis: pieces of `inner` elements are copied by index. Indices known beforehand are checked once.
class GatherStep : public backends::Step {
 public:
  explicit GatherStep(const Problem& problem)
      : wide_(problem.inputs[1].dtype == DType::i64), picked_(problem.inputs[1].dims.elements()) {
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
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t at = unit % picked_;
      int64_t index =
          wide_ ? reinterpret_cast<const int64_t*>(inputs[1])[at] : reinterpret_cast<const int32_t*>(inputs[1])[at];
      if (index < 0) index += size_;
      std::memcpy(outputs[0] + unit * bytes_, inputs[0] + (unit / picked_ * size_ + index) * bytes_,
                  static_cast<size_t>(bytes_));
    }
  }

 private:
  bool wide_;
  int64_t picked_, outer_ = 1, size_ = 0, bytes_;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  const Tensor& indices = problem.inputs[1].constant;
  if (!indices) return {Reason::not_constant, "its indices"};
  const Dims& dims = problem.inputs[0].dims;
  int64_t axis = problem.node->integer("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(dims.rank());
  const int64_t size = dims[static_cast<size_t>(axis)];
  for (int64_t at = 0; at < indices.elements(); ++at) {
    const int64_t index = indices.dtype() == DType::i64 ? indices.data<int64_t>()[at] : indices.data<int32_t>()[at];
    if (index < -size || index >= size) return Reason::out_of_range;
  }
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GatherStep>(problem); }

const backends::KernelRegistrar registered({"Gather", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::gather
