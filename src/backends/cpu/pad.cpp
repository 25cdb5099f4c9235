// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "ops/pad.h"

namespace tenon::cpu::pad {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

int64_t integer(const Tensor& tensor, int64_t at) {
  return tensor.dtype() == DType::i32 ? tensor.data<int32_t>()[at] : tensor.data<int64_t>()[at];
}

/// Pad in any mode: pieces that no margin splits, each from the place that it is read from, or filled.
class PadStep : public backends::Step {
 public:
  explicit PadStep(const Problem& problem)
      : size_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))), value_(present(problem, 2)) {
    const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
    std::vector<int64_t> before(x.rank());
    const Tensor& pads = problem.inputs[1].constant;
    for (int64_t at = 0; at < pads.elements() / 2; ++at) {
      int64_t axis = present(problem, 3) ? integer(problem.inputs[3].constant, at) : at;
      if (axis < 0) axis += static_cast<int64_t>(x.rank());
      before[static_cast<size_t>(axis)] = integer(pads, at);
    }
    size_t axes = x.rank();
    piece_ = size_;
    for (; axes > 1 && x[axes - 1] == y[axes - 1] && before[axes - 1] == 0; --axes) piece_ *= x[axes - 1];
    const std::string mode = problem.node->text("mode", "constant");
    int64_t stride = piece_;
    sources_.resize(axes);
    for (size_t axis = axes; axis-- > 0; stride *= x[axis])
      for (int64_t at = 0; at < y[axis]; ++at) {
        const int64_t source = ops::pad_source(mode, at - before[axis], x[axis]);
        sources_[axis].push_back(source < 0 ? outside : source * stride);
      }
    for (size_t axis = 0; axis + 1 < axes; ++axis) rows_ *= y[axis];
    left_ = std::clamp<int64_t>(before[axes - 1], 0, y[axes - 1]);
    const int64_t skipped = std::max<int64_t>(0, -before[axes - 1]);
    middle_ = std::clamp<int64_t>(x[axes - 1] - skipped, 0, y[axes - 1] - left_);
  }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const auto& list : sources_) bytes += list.size() * sizeof(int64_t);
    return bytes;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto width = static_cast<int64_t>(sources_.back().size());
    const std::byte* const value = value_ ? inputs[2] : nullptr;
    int64_t begin, end;
    worker.share(rows_, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      int64_t offset = 0, rest = row;
      bool inside = true;
      for (size_t axis = sources_.size() - 1; axis-- > 0; rest /= static_cast<int64_t>(sources_[axis].size())) {
        const int64_t source = sources_[axis][static_cast<size_t>(rest % static_cast<int64_t>(sources_[axis].size()))];
        inside &= source != outside;
        offset += source;
      }
      std::byte* const to = outputs[0] + row * width * piece_;
      if (!inside) {
        fill(to, value, width);
        continue;
      }
      margin(to, inputs[0] + offset, value, 0, left_);
      if (middle_ > 0)
        std::memcpy(to + left_ * piece_, inputs[0] + offset + sources_.back()[static_cast<size_t>(left_)],
                    static_cast<size_t>(middle_ * piece_));
      margin(to, inputs[0] + offset, value, left_ + middle_, width);
    }
  }

 private:
  static constexpr int64_t outside = -1;

  /// Pieces [begin, end) of a row that do not lie as the data does.
  void margin(std::byte* row, const std::byte* from, const std::byte* value, int64_t begin, int64_t end) const {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t source = sources_.back()[static_cast<size_t>(at)];
      if (source == outside) return fill(row + at * piece_, value, end - at);  // and so are its neighbours
      std::memcpy(row + at * piece_, from + source, static_cast<size_t>(piece_));
    }
  }
  void fill(std::byte* to, const std::byte* value, int64_t pieces) const {
    const int64_t bytes = pieces * piece_;
    if (!value) std::memset(to, 0, static_cast<size_t>(bytes));
    else
      for (int64_t at = 0; at < bytes; at += size_) std::memcpy(to + at, value, static_cast<size_t>(size_));
  }

  int64_t size_, piece_ = 0, rows_ = 1;        // size and piece: bytes
  int64_t left_, middle_;                      // pieces of a row before those that lie as the data does, and these
  std::vector<std::vector<int64_t>> sources_;  // bytes from the beginning, of each place along each axis
  bool value_;
};

Reason refuses_pad(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (present(problem, 2) && problem.inputs[2].dtype != problem.inputs[0].dtype) return Reason::mixed_types;
  if (!problem.inputs[1].constant || (present(problem, 3) && !problem.inputs[3].constant))
    return {Reason::not_constant, "its pads"};
  return problem.inputs[0].dims.elements() == 0 || problem.outputs[0].dims.elements() == 0 ||
                 problem.outputs[0].dims.rank() == 0
             ? Reason(Reason::empty)
             : Reason();
}
std::unique_ptr<backends::Step> make_pad(const Problem& problem) { return std::make_unique<PadStep>(problem); }

/// Expand and Tile: rows of the output, each copied from the row it repeats.
class RepeatStep : public backends::Step {
 public:
  explicit RepeatStep(const Problem& problem) : size_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))) {
    // Neighbouring axes that are both copied, or both repeated from one element, are one axis.
    const Dims &x = problem.inputs[0].dims, &y = problem.outputs[0].dims;
    for (size_t axis = 0; axis < y.rank(); ++axis) {
      const int64_t from = axis + x.rank() < y.rank() ? 1 : x[axis + x.rank() - y.rank()];
      const size_t last = y_.rank() - 1;
      if (axis > 0 && ((x_[last] == y_[last] && from == y[axis]) || (x_[last] == 1 && from == 1))) {
        x_[last] *= from, y_[last] *= y[axis];
      } else {
        x_.push_back(from), y_.push_back(y[axis]);
      }
    }
    strides_ = backends::dense_strides(x_);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const size_t last = y_.rank() - 1;
    const int64_t width = y_[last] * size_, piece = x_[last] * size_;
    int64_t begin, end;
    worker.share(y_.elements() / y_[last], begin, end);
    for (int64_t row = begin; row < end; ++row) {
      int64_t offset = 0, rest = row;
      for (size_t axis = last; axis-- > 0; rest /= y_[axis]) {
        offset += rest % y_[axis] % x_[axis] * strides_[axis];
        if (axis == 0) break;
      }
      // Doubling: each copy is as long as what is already there.
      std::byte* to = outputs[0] + row * width;
      std::memcpy(to, inputs[0] + offset * size_, static_cast<size_t>(piece));
      for (int64_t done = piece; done < width; done *= 2)
        std::memcpy(to + done, to, static_cast<size_t>(std::min(done, width - done)));
    }
  }

 private:
  Dims x_, y_, strides_;
  int64_t size_;
};

Reason refuses_repeat(const Problem& problem) {
  if (size_of(problem.inputs[0].dtype) == 0) return {Reason::element_type, "elements", "whole bytes"};
  if (problem.outputs[0].dims.rank() < problem.inputs[0].dims.rank())
    return {Reason::shape, "the output", "as many axes as the input"};
  return problem.inputs[0].dims.elements() == 0 || problem.outputs[0].dims.elements() == 0 ||
                 problem.outputs[0].dims.rank() == 0
             ? Reason(Reason::empty)
             : Reason();
}
std::unique_ptr<backends::Step> make_repeat(const Problem& problem) { return std::make_unique<RepeatStep>(problem); }

const backends::KernelRegistrar pad({"Pad", "rows", 1, refuses_any<refuses_pad>, make_any<make_pad>});
const backends::KernelRegistrar expand({"Expand", "rows", 1, refuses_any<refuses_repeat>, make_any<make_repeat>});
const backends::KernelRegistrar tiling({"Tile", "rows", 1, refuses_any<refuses_repeat>, make_any<make_repeat>});

}  // namespace
}  // namespace tenon::cpu::pad
