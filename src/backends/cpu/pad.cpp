// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"

namespace tenon::cpu::pad {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

int64_t integer(const Tensor& tensor, int64_t at) {
  return tensor.dtype() == DType::i32 ? tensor.data<int32_t>()[at] : tensor.data<int64_t>()[at];
}

/// Pad by constant margins: rows of the output are filled, copied, and filled.
class PadStep : public backends::Step {
 public:
  explicit PadStep(const Problem& problem)
      : x_(problem.inputs[0].dims),
        y_(problem.outputs[0].dims),
        size_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))),
        value_(present(problem, 2)) {
    const Tensor& pads = problem.inputs[1].constant;
    const int64_t count = pads.elements() / 2;
    for (int64_t at = 0; at < count; ++at) {
      int64_t axis = present(problem, 3) ? integer(problem.inputs[3].constant, at) : at;
      if (axis < 0) axis += static_cast<int64_t>(x_.rank());
      before_[axis] = integer(pads, at);
    }
    strides_ = backends::dense_strides(x_);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const size_t last = y_.rank() - 1;
    const int64_t width = y_[last], left = std::clamp<int64_t>(before_[last], 0, width);
    const int64_t skipped = std::max<int64_t>(0, -before_[last]),
                  copied = std::clamp<int64_t>(x_[last] - skipped, 0, width - left);
    int64_t begin, end;
    worker.share(y_.elements() / width, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      std::byte* to = outputs[0] + row * width * size_;
      int64_t offset = skipped, rest = row;
      bool inside = true;
      for (size_t axis = last; axis-- > 0; rest /= y_[axis]) {
        const int64_t at = rest % y_[axis] - before_[axis];
        inside &= at >= 0 && at < x_[axis];
        offset += at * strides_[axis];
        if (axis == 0) break;
      }
      const std::byte* value = value_ ? inputs[2] : nullptr;
      if (!inside) {
        fill(to, value, width);
        continue;
      }
      fill(to, value, left);
      std::memcpy(to + left * size_, inputs[0] + offset * size_, static_cast<size_t>(copied * size_));
      fill(to + (left + copied) * size_, value, width - left - copied);
    }
  }

 private:
  void fill(std::byte* to, const std::byte* value, int64_t count) const {
    if (!value) std::memset(to, 0, static_cast<size_t>(count * size_));
    else
      for (int64_t at = 0; at < count; ++at) std::memcpy(to + at * size_, value, static_cast<size_t>(size_));
  }

  Dims x_, y_, strides_;
  int64_t size_;
  bool value_;
  int64_t before_[Dims::max_rank] = {};
};

Reason refuses_pad(const Problem& problem) {
  if (problem.node->text("mode", "constant") != "constant") return {Reason::attribute, "mode", "constant"};
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
