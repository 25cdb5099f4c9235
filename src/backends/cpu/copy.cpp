// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/kernel.h"
#include "backends/strided_copy.h"
#include "ops/rearrange.h"

namespace tenon::cpu::copy {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// One strided copy, cut along its longest outer axis so that workers share it.
struct Copy {
  Dims dims, src_strides, dst_strides;
  int64_t src_offset = 0, dst_offset = 0;  // elements
  size_t input = 0, output = 0;
  size_t element = 4;
  size_t cut = 0;

  void choose_cut() {
    for (size_t axis = 0; axis + 1 < dims.rank(); ++axis)
      if (dims[axis] >= 8 || dims[axis] > dims[cut]) {
        cut = axis;
        if (dims[axis] >= 8) break;
      }
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const {
    const auto size = static_cast<int64_t>(element);
    const std::byte* src = inputs[input] + src_offset * size;
    std::byte* dst = outputs[output] + dst_offset * size;
    if (src == dst && src_strides == dst_strides) return;  // it was written in its place
    if (dims.rank() == 0) {
      if (worker.id == 0) std::copy(src, src + size, dst);
      return;
    }
    int64_t begin, end;
    worker.share(dims[cut], begin, end);
    if (begin == end) return;
    Dims part = dims;
    part[cut] = end - begin;
    backends::strided_copy(part, element, src + begin * src_strides[cut] * size, src_strides,
                           dst + begin * dst_strides[cut] * size, dst_strides);
  }
};

class CopyStep : public backends::Step {
 public:
  explicit CopyStep(std::vector<Copy> copies) : copies_(std::move(copies)) {
    for (Copy& copy : copies_) copy.choose_cut();
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    for (const Copy& copy : copies_) copy.run(inputs, outputs, worker);
  }

 private:
  std::vector<Copy> copies_;
};

size_t axis_of(const Problem& problem, size_t rank, int64_t otherwise) {
  const int64_t axis = problem.node->integer("axis", otherwise);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

Reason needs_plain_type(const Problem& problem) {
  return size_of(problem.inputs[0].dtype) ? Reason() : Reason(Reason::element_type, "elements", "whole bytes");
}

Reason refuses_reshape(const Problem& problem) {
  if (const Reason reason = needs_plain_type(problem)) return reason;
  return problem.inputs[0].dense() || problem.outputs[0].dense() ? Reason() : Reason(Reason::view, "each side");
}

/// A copy where one side is dense: it takes the other side's sizes.
std::unique_ptr<backends::Step> make_reshape(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  Copy copy;
  copy.element = size_of(x.dtype);
  copy.dims = y.dense() ? x.dims : y.dims;
  copy.src_strides = y.dense() ? x.strides : backends::dense_strides(y.dims);
  copy.dst_strides = y.dense() ? backends::dense_strides(x.dims) : y.strides;
  return std::make_unique<CopyStep>(std::vector<Copy>{copy});
}

std::unique_ptr<backends::Step> make_concat(const Problem& problem) {
  const Operand& y = problem.outputs[0];
  const size_t axis = axis_of(problem, y.dims.rank(), 0);
  std::vector<Copy> copies;
  int64_t begin = 0;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const Operand& x = problem.inputs[at];
    if (x.dims.elements() > 0)
      copies.push_back({x.dims, x.strides, y.strides, 0, begin * y.strides[axis], at, 0, size_of(x.dtype)});
    begin += x.dims[axis];
  }
  return std::make_unique<CopyStep>(std::move(copies));
}

std::unique_ptr<backends::Step> make_split(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  const size_t axis = axis_of(problem, x.dims.rank(), 0);
  std::vector<Copy> copies;
  int64_t begin = 0;
  for (size_t at = 0; at < problem.outputs.size(); ++at) {
    const Operand& y = problem.outputs[at];
    if (y.dims.elements() > 0)
      copies.push_back({y.dims, x.strides, y.strides, begin * x.strides[axis], 0, 0, at, size_of(x.dtype)});
    begin += y.dims[axis];
  }
  return std::make_unique<CopyStep>(std::move(copies));
}

Reason refuses_split(const Problem& problem) {
  for (const Operand& operand : problem.outputs)
    if (!operand) return {Reason::absent, "an output"};
  return needs_plain_type(problem);
}

std::unique_ptr<backends::Step> make_transpose(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  std::vector<int64_t> perm = problem.node->integers("perm");
  if (perm.empty())
    for (size_t axis = x.dims.rank(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
  Copy copy{y.dims, y.strides, y.strides, 0, 0, 0, 0, size_of(x.dtype)};
  for (size_t axis = 0; axis < perm.size(); ++axis) copy.src_strides[axis] = x.strides[static_cast<size_t>(perm[axis])];
  return std::make_unique<CopyStep>(std::vector<Copy>{copy});
}

std::unique_ptr<backends::Step> make_rearrangement(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const ops::Rearrangement way = ops::rearrangement(*problem.node, x.dims, x.strides, y.strides);
  Copy copy{way.dims, way.from, way.to, 0, 0, 0, 0, size_of(x.dtype)};
  return std::make_unique<CopyStep>(std::vector<Copy>{copy});
}

Reason refuses_slice(const Problem& problem) {
  for (size_t at = 1; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && !problem.inputs[at].constant) return {Reason::not_constant, "its range"};
  return needs_plain_type(problem);
}

std::unique_ptr<backends::Step> make_slice(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const auto integer = [&](size_t input, int64_t index) {
    const Tensor& tensor = problem.inputs[input].constant;
    return tensor.dtype() == DType::i32 ? static_cast<int64_t>(tensor.data<int32_t>()[index])
                                        : tensor.data<int64_t>()[index];
  };
  const auto present = [&](size_t input) { return input < problem.inputs.size() && problem.inputs[input]; };
  Copy copy{y.dims, x.strides, y.strides, 0, 0, 0, 0, size_of(x.dtype)};
  for (int64_t at = 0; at < problem.inputs[1].constant.elements(); ++at) {
    int64_t axis = present(3) ? integer(3, at) : at;
    if (axis < 0) axis += static_cast<int64_t>(x.dims.rank());
    const int64_t step = present(4) ? integer(4, at) : 1, size = x.dims[axis];
    int64_t start = integer(1, at);
    if (start < 0) start += size;
    start = step > 0 ? std::clamp<int64_t>(start, 0, size) : std::clamp<int64_t>(start, 0, size - 1);
    copy.src_offset += start * x.strides[axis];
    // A step that nothing takes may be of any size.
    copy.src_strides[axis] = y.dims[axis] > 1 ? x.strides[axis] * step : 0;
  }
  return std::make_unique<CopyStep>(std::vector<Copy>{copy});
}

const backends::KernelRegistrar register_reshape({"Reshape", "copy", 1, refuses_reshape, make_reshape});
const backends::KernelRegistrar register_flatten({"Flatten", "copy", 1, refuses_reshape, make_reshape});
const backends::KernelRegistrar register_squeeze({"Squeeze", "copy", 1, refuses_reshape, make_reshape});
const backends::KernelRegistrar register_unsqueeze({"Unsqueeze", "copy", 1, refuses_reshape, make_reshape});
const backends::KernelRegistrar register_identity({"Identity", "copy", 1, refuses_reshape, make_reshape});
const backends::KernelRegistrar register_concat({"Concat", "copy", 1, needs_plain_type, make_concat});
const backends::KernelRegistrar register_split({"Split", "copy", 1, refuses_split, make_split});
const backends::KernelRegistrar register_depth({"DepthToSpace", "copy", 1, needs_plain_type, make_rearrangement});
const backends::KernelRegistrar register_space({"SpaceToDepth", "copy", 1, needs_plain_type, make_rearrangement});
const backends::KernelRegistrar register_transpose({"Transpose", "copy", 1, needs_plain_type, make_transpose});
const backends::KernelRegistrar register_slice({"Slice", "copy", 1, refuses_slice, make_slice});

}  // namespace
}  // namespace tenon::cpu::copy
