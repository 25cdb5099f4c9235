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

bool is_small(int64_t bytes) { return bytes == 4 || bytes == 8; }

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
  size_t workspace_bytes() const override {
    return is_small(bytes_) ? 0 : static_cast<size_t>(sizes_.elements()) * sizeof(int64_t);
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(sizes_.elements(), begin, end);
    switch (bytes_) {
      case 4: return overwrite<4>(inputs, outputs[0], begin, end);
      case 8: return overwrite<8>(inputs, outputs[0], begin, end);
      default: return pick(inputs, outputs[0], reinterpret_cast<int64_t*>(worker.workspace), begin, end);
    }
  }

 private:
  /// Calls visit(update, piece) in the order of updates. Every worker looks at all of them, so that none waits for one
  /// that has failed.
  template <class Visit>
  void each_update(const std::byte* indices, Visit visit) const {
    const auto length = static_cast<int64_t>(sizes_.rank());
    for (int64_t update = 0; update < updates_; ++update) {
      int64_t piece = 0;
      for (int64_t at = 0; at < length; ++at) {
        const int64_t size = sizes_[static_cast<size_t>(at)];
        piece = piece * size + indices_.at(indices, update * length + at, size);
      }
      visit(update, piece);
    }
  }
  /// Small pieces: writing one twice costs less than knowing which update is the last.
  template <size_t bytes>
  void overwrite(std::byte* const* inputs, std::byte* output, int64_t begin, int64_t end) const {
    std::memcpy(output + begin * bytes_, inputs[0] + begin * bytes_, static_cast<size_t>((end - begin) * bytes_));
    each_update(inputs[1], [&](int64_t update, int64_t piece) {
      if (piece >= begin && piece < end)
        std::memcpy(output + piece * int64_t{bytes}, inputs[2] + update * int64_t{bytes}, bytes);
    });
  }
  void pick(std::byte* const* inputs, std::byte* output, int64_t* update_of, int64_t begin, int64_t end) const {
    std::fill(update_of + begin, update_of + end, -1);
    each_update(inputs[1], [&](int64_t update, int64_t piece) {
      if (piece >= begin && piece < end) update_of[piece] = update;
    });
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t update = update_of[piece];
      std::memcpy(output + piece * bytes_, update < 0 ? inputs[0] + piece * bytes_ : inputs[2] + update * bytes_,
                  static_cast<size_t>(bytes_));
    }
  }

  Indices indices_;
  Dims sizes_;  // of the axes that a tuple picks on
  int64_t updates_, bytes_;
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (problem.node->text("reduction", "none") != "none") return {Reason::attribute, "reduction", "none"};
  if (problem.inputs[2].dims.elements() == 0) return Reason::empty;
  const bool whole = problem.inputs[1].dims.back() == static_cast<int64_t>(problem.inputs[0].dims.rank());
  const bool small = whole && is_small(static_cast<int64_t>(size_of(problem.inputs[0].dtype)));
  // Of larger pieces fewer may be written in place.
  if (!small && problem.inputs[2].dims.elements() < problem.inputs[0].dims.elements() / 2)
    return {Reason::too_few, problem.inputs[0].dims.elements() / 2, "updates"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ScatterNdStep>(problem); }

const backends::KernelRegistrar registered({"ScatterND", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::scatter_nd
