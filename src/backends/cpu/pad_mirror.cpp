// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/dense.h"
#include "backends/kernel.h"
#include "ops/pad.h"

namespace tenon::cpu::pad_mirror {
namespace {

using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

int64_t integer(const Tensor& tensor, int64_t at) {
  return tensor.dtype() == DType::i32 ? tensor.data<int32_t>()[at] : tensor.data<int64_t>()[at];
}

/// Pad by what the data has (reflect, edge, wrap): pieces that no margin splits, each from where it is read.
class MirrorStep : public backends::Step {
 public:
  explicit MirrorStep(const Problem& problem) : piece_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))) {
    const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
    const std::string mode = problem.node->text("mode", "constant");
    std::vector<int64_t> before(x.rank());
    const Tensor& pads = problem.inputs[1].constant;
    for (int64_t at = 0; at < pads.elements() / 2; ++at) {
      int64_t axis = present(problem, 3) ? integer(problem.inputs[3].constant, at) : at;
      if (axis < 0) axis += static_cast<int64_t>(x.rank());
      before[static_cast<size_t>(axis)] = integer(pads, at);
    }
    size_t axes = x.rank();
    for (; axes > 1 && x[axes - 1] == y[axes - 1] && before[axes - 1] == 0; --axes) piece_ *= x[axes - 1];
    int64_t stride = piece_;
    sources_.resize(axes);
    for (size_t axis = axes; axis-- > 0; stride *= x[axis])
      for (int64_t at = 0; at < y[axis]; ++at)
        sources_[axis].push_back(ops::pad_source(mode, at - before[axis], x[axis]) * stride);
    rows_ = 1;
    for (size_t axis = 0; axis + 1 < axes; ++axis) rows_ *= y[axis];
    middle_ = std::clamp<int64_t>(before[axes - 1], 0, y[axes - 1]);
    const int64_t skipped = std::max<int64_t>(0, -before[axes - 1]);
    run_ = std::clamp<int64_t>(x[axes - 1] - skipped, 0, y[axes - 1] - middle_);
  }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const auto& list : sources_) bytes += list.size() * sizeof(int64_t);
    return bytes;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const std::vector<int64_t>& last = sources_.back();
    const auto width = static_cast<int64_t>(last.size());
    int64_t begin, end;
    worker.share(rows_, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const std::byte* from = inputs[0];
      int64_t rest = row;
      for (size_t axis = sources_.size() - 1; axis-- > 0; rest /= static_cast<int64_t>(sources_[axis].size()))
        from += sources_[axis][static_cast<size_t>(rest % static_cast<int64_t>(sources_[axis].size()))];
      std::byte* const to = outputs[0] + row * width * piece_;
      const auto copy = [&](int64_t at, int64_t pieces) {
        std::memcpy(to + at * piece_, from + last[static_cast<size_t>(at)], static_cast<size_t>(pieces * piece_));
      };
      for (int64_t at = 0; at < middle_; ++at) copy(at, 1);
      if (run_ > 0) copy(middle_, run_);
      for (int64_t at = middle_ + run_; at < width; ++at) copy(at, 1);
    }
  }

 private:
  int64_t piece_, rows_, middle_, run_;        // piece: bytes; middle, run: pieces of a row that are read as they lie
  std::vector<std::vector<int64_t>> sources_;  // bytes from the beginning, of each place along each axis
};

Reason refuses(const Problem& problem) {
  if (problem.node->text("mode", "constant") == "constant") return {Reason::attribute, "mode", "reflect, edge or wrap"};
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (!problem.inputs[1].constant || (present(problem, 3) && !problem.inputs[3].constant))
    return {Reason::not_constant, "its pads"};
  return problem.inputs[0].dims.elements() == 0 || problem.outputs[0].dims.elements() == 0 ||
                 problem.inputs[0].dims.rank() == 0
             ? Reason(Reason::empty)
             : Reason();
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<MirrorStep>(problem); }

const backends::KernelRegistrar registered({"Pad", "mirrors", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::pad_mirror
