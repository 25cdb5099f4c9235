// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"

namespace tenon::cpu::scatter_places {
namespace {

using backends::Problem;
using backends::Reason;

/// Calls visit(place), the first element that a tuple of indices names, or -1 where it lies outside; in their order.
template <class Visit>
void each_place(const Problem& problem, const Visit& visit) {
  const Tensor& indices = problem.inputs[1].constant;
  const Dims &dims = problem.inputs[0].dims, strides = backends::dense_strides(dims);
  const int64_t tuple = indices.dims().back();
  for (int64_t at = 0; at < indices.elements(); at += tuple) {
    int64_t place = 0;
    for (int64_t axis = 0; axis < tuple && place >= 0; ++axis) {
      int64_t index =
          indices.dtype() == DType::i64 ? indices.data<int64_t>()[at + axis] : indices.data<int32_t>()[at + axis];
      if (index < 0) index += dims[axis];
      place = index < 0 || index >= dims[axis] ? -1 : place + index * strides[axis];
    }
    visit(place);
  }
}

/// Updates by tuples that are known beforehand: neighbours that go to neighbours are one piece.
class ScatterPlacesStep : public backends::Step {
 public:
  explicit ScatterPlacesStep(const Problem& problem)
      : element_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))),
        bytes_(problem.inputs[0].dims.elements() * element_) {
    const Dims &dims = problem.inputs[0].dims, &indices = problem.inputs[1].dims;
    int64_t slice = 1;
    for (size_t axis = static_cast<size_t>(indices.back()); axis < dims.rank(); ++axis) slice *= dims[axis];
    slice *= element_;
    int64_t from = 0;
    each_place(problem, [&](int64_t place) {
      const int64_t to = place * element_;
      if (!pieces_.empty() && pieces_.back().to + pieces_.back().size == to) pieces_.back().size += slice;
      else pieces_.push_back({from, to, slice});
      from += slice;
    });
  }
  size_t packed_bytes() const override { return pieces_.size() * sizeof(Piece); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(bytes_, begin, end);
    if (outputs[0] != inputs[0]) std::memcpy(outputs[0] + begin, inputs[0] + begin, static_cast<size_t>(end - begin));
    worker.sync();
    worker.share(static_cast<int64_t>(pieces_.size()), begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const Piece& piece = pieces_[static_cast<size_t>(at)];
      std::memcpy(outputs[0] + piece.to, inputs[2] + piece.from, static_cast<size_t>(piece.size));
    }
  }

 private:
  struct Piece {
    int64_t from, to, size;  // bytes
  };

  int64_t element_, bytes_;
  std::vector<Piece> pieces_;
};

Reason refuses(const Problem& problem) {
  if (problem.node->text("reduction", "none") != "none") return {Reason::attribute, "reduction", "none"};
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (problem.outputs[0].dims.elements() == 0 || problem.inputs[1].dims.elements() == 0) return Reason::empty;
  if (!problem.inputs[1].constant) return {Reason::not_constant, "its indices"};
  // Of two updates of one place the later one counts, which threads would not know.
  int64_t last = -1;
  bool rises = true;
  each_place(problem, [&](int64_t place) { rises &= place > last, last = place; });
  return rises ? Reason() : Reason(Reason::form, "rising places inside the data");
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ScatterPlacesStep>(problem); }

const backends::KernelRegistrar registered({"ScatterND", "places", 2, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::scatter_places
