// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/indices.h"

namespace tenon::cpu::scatter_nd {
namespace {

using backends::Problem;
using backends::Reason;

/// Each piece of the data, or the last update of it. Pieces are named by tuples of indices into the axes before them.
class ScatterNdStep : public backends::Step {
 public:
  explicit ScatterNdStep(const Problem& problem) : indices_(*problem.node, problem.inputs[1].dtype) {
    const Dims &data = problem.inputs[0].dims, &where = problem.inputs[1].dims;
    updates_ = where.elements() / where.back();
    bytes_ = static_cast<int64_t>(size_of(problem.inputs[0].dtype));
    for (size_t axis = 0; axis < data.rank(); ++axis)
      if (static_cast<int64_t>(axis) < where.back()) sizes_.push_back(data[axis]);
      else bytes_ *= data[axis];
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(sizes_.elements()) * sizeof(int64_t); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    auto* update_of = reinterpret_cast<int64_t*>(worker.workspace);
    int64_t begin, end;
    worker.share(sizes_.elements(), begin, end);
    std::fill(update_of + begin, update_of + end, -1);
    // Every worker looks at all of them, so that none waits for one that has failed.
    const auto length = static_cast<int64_t>(sizes_.rank());
    for (int64_t update = 0; update < updates_; ++update) {
      int64_t piece = 0;
      for (int64_t at = 0; at < length; ++at) {
        const int64_t size = sizes_[static_cast<size_t>(at)];
        piece = piece * size + indices_.at(inputs[1], update * length + at, size);
      }
      if (piece >= begin && piece < end) update_of[piece] = update;
    }
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t update = update_of[piece];
      std::memcpy(outputs[0] + piece * bytes_, update < 0 ? inputs[0] + piece * bytes_ : inputs[2] + update * bytes_,
                  static_cast<size_t>(bytes_));
    }
  }

 private:
  Indices indices_;
  Dims sizes_;  // of the axes that a tuple picks on
  int64_t updates_, bytes_;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (problem.node->text("reduction", "none") != "none") return {Reason::attribute, "reduction", "none"};
  if (problem.inputs[2].dims.elements() == 0) return Reason::empty;
  // Fewer may be written in place.
  if (problem.inputs[2].dims.elements() < problem.inputs[0].dims.elements() / 2)
    return {Reason::too_few, problem.inputs[0].dims.elements() / 2, "updates"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ScatterNdStep>(problem); }

const backends::KernelRegistrar registered({"ScatterND", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::scatter_nd
