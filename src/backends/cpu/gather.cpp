// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/indices.h"
#include "backends/cpu/kernels/support.h"

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
    if (problem.inputs[1].constant) join(problem.inputs[1].constant);
    if (outer_ < 4 || bytes_ > most_listed || size_ > std::numeric_limits<int32_t>::max() || !runs_.empty()) return;
    places_ = set_apart(static_cast<size_t>(picked_) * sizeof(int32_t));
    threads_ = problem.threads;
  }
  size_t workspace_bytes() const override { return places_ * static_cast<size_t>(threads_); }
  size_t packed_bytes() const override { return runs_.size() * sizeof(Run); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    if (!runs_.empty()) return copy_runs(inputs[0], outputs[0], worker);
    int64_t begin, end;
    worker.share(outer_ * picked_, begin, end);
    if (begin == end) return;
    if (places_ > 0) return copy_lines(inputs, outputs[0], begin, end, worker);
    int64_t at = begin % picked_, line = begin / picked_ * size_;
    copy_pieces(outputs[0], inputs[0], bytes_, begin, end, [&](int64_t) {
      const int64_t place = line + indices_.at(inputs[1], at, size_);
      if (++at == picked_) at = 0, line += size_;
      return place;
    });
  }

 private:
  struct Run {
    int64_t from, to, bytes;
  };

  /// Neighbours that are picked side by side, as windows do, are one piece, where they are several on average.
  void join(const Tensor& constant) {
    const auto* numbers = reinterpret_cast<const std::byte*>(constant.data());
    std::vector<Run> runs;
    for (int64_t at = 0; at < picked_; ++at) {
      const auto index = indices_.find(numbers, at, size_);
      if (!index) return;  // is told of when it runs
      const int64_t from = *index * bytes_;
      if (!runs.empty() && runs.back().from + runs.back().bytes == from) runs.back().bytes += bytes_;
      else runs.push_back({from, at * bytes_, bytes_});
      if (static_cast<int64_t>(runs.size()) > picked_ / 2) return;
    }
    runs_ = std::move(runs);
  }
  void copy_runs(const std::byte* x, std::byte* y, const Worker& worker) const {
    const auto count = static_cast<int64_t>(runs_.size());
    int64_t begin, end;
    worker.share(outer_ * count, begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const Run& run = runs_[static_cast<size_t>(at % count)];
      const int64_t line = at / count;
      std::memcpy(y + line * picked_ * bytes_ + run.to, x + line * size_ * bytes_ + run.from,
                  static_cast<size_t>(run.bytes));
    }
  }

  /// Where all lines take theirs from is listed once.
  void copy_lines(std::byte* const* inputs, std::byte* to, int64_t begin, int64_t end, const Worker& worker) const {
    auto* places = reinterpret_cast<int32_t*>(worker.workspace + places_ * static_cast<size_t>(worker.id));
    for (int64_t at = 0; at < picked_; ++at) places[at] = static_cast<int32_t>(indices_.at(inputs[1], at, size_));
    for (int64_t line = begin / picked_; begin < end; ++line) {
      const int64_t first = line * picked_, last = std::min(end, first + picked_);
      copy_pieces(to + first * bytes_, inputs[0] + line * size_ * bytes_, bytes_, begin - first, last - first,
                  [&](int64_t piece) { return places[piece]; });
      begin = last;
    }
  }

  static constexpr int64_t most_listed = 16;  // bytes of a piece that takes less time than to find where it lies
  size_t places_ = 0;
  int threads_ = 0;
  Indices indices_;
  int64_t picked_, outer_ = 1, size_ = 0, bytes_;
  std::vector<Run> runs_;  // of constant indices
};

Reason refuses(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  return problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<GatherStep>(problem); }

const backends::KernelRegistrar registered({"Gather", "pieces", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::gather
