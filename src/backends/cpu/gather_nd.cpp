// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/indices.h"

namespace tenon::cpu::gather_nd {
namespace {

using backends::Problem;
using backends::Reason;

/// Pieces of the data, each named by a tuple of indices into the axes before it.
class GatherNdStep : public backends::Step {
 public:
  explicit GatherNdStep(const Problem& problem) : indices_(*problem.node, problem.inputs[1].dtype) {
    const Dims &data = problem.inputs[0].dims, &where = problem.inputs[1].dims;
    const auto batch = static_cast<size_t>(problem.node->integer("batch_dims", 0));
    const auto length = static_cast<size_t>(where.back());
    pieces_ = where.elements() / where.back();
    bytes_ = static_cast<int64_t>(size_of(problem.inputs[0].dtype));
    for (size_t axis = 0; axis < data.rank(); ++axis)
      if (axis < batch) batches_ *= data[axis];
      else if (axis < batch + length) sizes_.push_back(data[axis]);
      else bytes_ *= data[axis];
    per_batch_ = pieces_ / batches_;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto length = static_cast<int64_t>(sizes_.rank());
    int64_t begin, end;
    worker.share(pieces_, begin, end);
    copy_pieces(outputs[0], inputs[0], bytes_, begin, end, [&](int64_t piece) {
      int64_t place = batches_ == 1 ? 0 : piece / per_batch_;
      for (int64_t at = 0; at < length; ++at) {
        const int64_t size = sizes_[static_cast<size_t>(at)];
        place = place * size + indices_.at(inputs[1], piece * length + at, size);
      }
      return place;
    });
  }

 private:
  Indices indices_;
  Dims sizes_;  // of the axes that a tuple picks on
  int64_t batches_ = 1, per_batch_, pieces_, bytes_;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  return problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GatherNdStep>(problem); }

const backends::KernelRegistrar registered({"GatherND", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::gather_nd
