// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"

namespace tenon::cpu::gather_elements {
namespace {

using backends::Problem;
using backends::Reason;

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

template <class Visit>
void each_index(const Tensor& indices, int64_t size, const Visit& visit) {
  for (int64_t at = 0; at < indices.elements(); ++at) {
    const int64_t index = indices.dtype() == DType::i64 ? indices.data<int64_t>()[at] : indices.data<int32_t>()[at];
    visit(at, index < 0 ? index + size : index);
  }
}

/// Elements by indices that are known beforehand: where each lies is made once.
class GatherElementsStep : public backends::Step {
 public:
  explicit GatherElementsStep(const Problem& problem) : bytes_(size_of(problem.inputs[0].dtype)) {
    const Dims &from = problem.inputs[0].dims, &to = problem.inputs[1].dims;
    const size_t axis = axis_of(problem);
    const Dims strides = backends::dense_strides(from);
    places_.resize(static_cast<size_t>(to.elements()));
    each_index(problem.inputs[1].constant, from[axis], [&](int64_t at, int64_t index) {
      int64_t place = index * strides[axis], rest = at;
      for (size_t k = to.rank(); k-- > 0; rest /= to[k])
        if (k != axis) place += rest % to[k] * strides[k];
      places_[static_cast<size_t>(at)] = static_cast<uint32_t>(place);
    });
  }
  size_t packed_bytes() const override { return places_.size() * sizeof(uint32_t); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(static_cast<int64_t>(places_.size()), begin, end);
    switch (bytes_) {
      case 1: return pick<uint8_t>(inputs[0], outputs[0], begin, end);
      case 2: return pick<uint16_t>(inputs[0], outputs[0], begin, end);
      case 4: return pick<uint32_t>(inputs[0], outputs[0], begin, end);
      default: return pick<uint64_t>(inputs[0], outputs[0], begin, end);
    }
  }

 private:
  template <class T>
  void pick(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
    const T* x = reinterpret_cast<const T*>(from);
    T* y = reinterpret_cast<T*>(to);
    for (int64_t at = begin; at < end; ++at) y[at] = x[places_[static_cast<size_t>(at)]];
  }

  size_t bytes_;
  std::vector<uint32_t> places_;  // of elements, in the output's order
};

Reason refuses(const Problem& problem) {
  const size_t bytes = size_of(problem.inputs[0].dtype);
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return {Reason::element_type, "elements", "1 to 8 bytes"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  const Tensor& indices = problem.inputs[1].constant;
  if (!indices) return {Reason::not_constant, "its indices"};
  if (problem.inputs[0].dims.elements() > std::numeric_limits<uint32_t>::max()) return Reason::too_large;
  const int64_t size = problem.inputs[0].dims[axis_of(problem)];
  bool fits = true;
  each_index(indices, size, [&](int64_t, int64_t index) { fits &= index >= 0 && index < size; });
  return fits ? Reason() : Reason(Reason::out_of_range);
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GatherElementsStep>(problem); }

const backends::KernelRegistrar registered({"GatherElements", "places", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::gather_elements
