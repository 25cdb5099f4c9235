// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/dense.h"

namespace tenon::cpu::tensor_scatter {
namespace {

using backends::Problem;
using backends::Reason;

bool has_indices(const Problem& problem) { return problem.inputs.size() > 2 && problem.inputs[2]; }

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", -2);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

/// The cache, piece by piece before the axis, each with its update. An index that leaves no room takes the last that
/// does.
class TensorScatterStep : public backends::Step {
 public:
  explicit TensorScatterStep(const Problem& problem)
      : indices_(has_indices(problem)), circular_(problem.node->text("mode", "linear") == "circular") {
    const Dims& dims = problem.inputs[0].dims;
    const size_t axis = axis_of(problem);
    most_ = dims[axis], count_ = problem.inputs[1].dims[axis];
    slice_ = size_of(problem.inputs[0].dtype);
    for (size_t at = 0; at < axis; ++at) pieces_ *= dims[at];
    for (size_t at = axis + 1; at < dims.rank(); ++at) slice_ *= static_cast<size_t>(dims[at]);
    of_one_ = pieces_ / dims[0];
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* indices = indices_ ? reinterpret_cast<const int64_t*>(inputs[2]) : nullptr;
    int64_t begin, end;
    worker.share(pieces_, begin, end);
    for (int64_t piece = begin; piece < end; ++piece) {
      const size_t whole = static_cast<size_t>(most_) * slice_, part = static_cast<size_t>(count_) * slice_;
      std::byte* const to = outputs[0] + static_cast<size_t>(piece) * whole;
      const std::byte* const from = inputs[1] + static_cast<size_t>(piece) * part;
      std::memcpy(to, inputs[0] + static_cast<size_t>(piece) * whole, whole);
      const int64_t index = indices ? std::max<int64_t>(indices[piece / of_one_], 0) : 0;
      const int64_t first = circular_ ? index % most_ : std::min(index, most_ - count_);
      const auto before = static_cast<size_t>(std::min(count_, most_ - first)) * slice_;  // the end of the cache
      std::memcpy(to + static_cast<size_t>(first) * slice_, from, before);
      std::memcpy(to, from + before, part - before);
    }
  }

 private:
  bool indices_, circular_;
  int64_t pieces_ = 1, of_one_ = 1, most_ = 0, count_ = 0;
  size_t slice_ = 0;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (has_indices(problem) && problem.inputs[2].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  if (problem.inputs[0].dims.elements() == 0) return Reason::empty;
  const size_t axis = axis_of(problem);
  return problem.inputs[1].dims[axis] > problem.inputs[0].dims[axis] ? Reason(Reason::too_large) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<TensorScatterStep>(problem); }

const backends::KernelRegistrar registered({"TensorScatter", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::tensor_scatter
