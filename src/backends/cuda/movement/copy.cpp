// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/elementwise/map.h"
#include "ops/frames.h"
#include "ops/rearrange.h"

namespace tenon::cuda::copy {
namespace {

/// One strided copy between an input and an output.
struct Copy {
  Dims dims, from, to;                   // strides in elements
  int64_t from_begin = 0, to_begin = 0;  // elements
  size_t input = 0, output = 0;
};

Map map_of(const Problem& problem, const Copy& copy) {
  const Operand &x = problem.inputs[copy.input], &y = problem.outputs[copy.output];
  const auto size = static_cast<int>(size_of(x.dtype));
  Map map = copy_map(copy.dims, copy.from, copy.to, size);
  map.aligned = {x.aligned && copy.from_begin * size % 16 == 0, y.aligned && copy.to_begin * size % 16 == 0};
  return map;
}

using Copies = std::vector<Copy>;
using Plan = Copies (*)(const Problem&);

size_t axis_of(const Problem& problem, size_t rank) {
  const int64_t axis = problem.node->integer("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

/// Between two views: axes that are as fine as those of both. None where sizes do not divide each other.
Copies refined(const Operand& x, const Operand& y) {
  Copy copy;
  int64_t left = 1, right = 1;  // of the current axes, what is not taken yet
  for (size_t at = 0, to = 0;;) {
    while (left == 1 && at < x.dims.rank()) left = x.dims[at++];
    while (right == 1 && to < y.dims.rank()) right = y.dims[to++];
    if (left == 1 && right == 1) return {copy};
    const int64_t size = std::min(left, right);
    if (size < 2 || left % size || right % size || copy.dims.rank() == Dims::max_rank) return {};
    left /= size, right /= size;
    copy.dims.push_back(size);
    copy.from.push_back(x.strides[at - 1] * left), copy.to.push_back(y.strides[to - 1] * right);
  }
}

Copies reshape(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (y.dense()) return {{x.dims, x.strides, backends::dense_strides(x.dims)}};
  if (x.dense()) return {{y.dims, backends::dense_strides(y.dims), y.strides}};
  return refined(x, y);
}

Copies concat(const Problem& problem) {
  const Operand& y = problem.outputs[0];
  const size_t axis = axis_of(problem, y.dims.rank());
  Copies copies;
  int64_t begin = 0;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const Operand& x = problem.inputs[at];
    if (x.dims.elements() > 0) copies.push_back({x.dims, x.strides, y.strides, 0, begin * y.strides[axis], at, 0});
    begin += x.dims[axis];
  }
  return copies;
}

Copies split(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  const size_t axis = axis_of(problem, x.dims.rank());
  Copies copies;
  int64_t begin = 0;
  for (size_t at = 0; at < problem.outputs.size(); ++at) {
    const Operand& y = problem.outputs[at];
    if (y.dims.elements() > 0) copies.push_back({y.dims, x.strides, y.strides, begin * x.strides[axis], 0, 0, at});
    begin += y.dims[axis];
  }
  return copies;
}

Copies transpose(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  std::vector<int64_t> perm = problem.node->integers("perm");
  if (perm.empty())
    for (size_t axis = x.dims.rank(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
  Copy copy{y.dims, y.strides, y.strides};
  for (size_t axis = 0; axis < perm.size(); ++axis) copy.from[axis] = x.strides[static_cast<size_t>(perm[axis])];
  return {copy};
}

Copies expand(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  Copy copy{y.dims, y.strides, y.strides};
  for (size_t axis = 0; axis < y.dims.rank(); ++axis) {
    const size_t missing = y.dims.rank() - x.dims.rank();
    const bool repeats = axis < missing || x.dims[axis - missing] == 1;
    copy.from[axis] = repeats ? 0 : x.strides[axis - missing];
  }
  return {copy};
}

Copies slice(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const auto integer = [&](size_t input, int64_t index) {
    const Tensor& tensor = problem.inputs[input].constant;
    return tensor.dtype() == DType::i32 ? static_cast<int64_t>(tensor.data<int32_t>()[index])
                                        : tensor.data<int64_t>()[index];
  };
  const auto present = [&](size_t input) { return input < problem.inputs.size() && problem.inputs[input]; };
  Copy copy{y.dims, x.strides, y.strides};
  for (int64_t at = 0; at < problem.inputs[1].constant.elements(); ++at) {
    int64_t axis = present(3) ? integer(3, at) : at;
    if (axis < 0) axis += static_cast<int64_t>(x.dims.rank());
    const int64_t size = x.dims[axis], most = size + 1;  // a longer step takes one element, too
    const int64_t step = std::clamp(present(4) ? integer(4, at) : 1, -most, most);
    int64_t start = integer(1, at);
    if (start < 0) start += size;
    start = step > 0 ? std::clamp<int64_t>(start, 0, size) : std::clamp<int64_t>(start, 0, size - 1);
    copy.from_begin += start * x.strides[axis];
    copy.from[axis] = x.strides[axis] * step;
  }
  return {copy};
}

Copies rearrange(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const ops::Rearrangement copy = ops::rearrangement(*problem.node, x.dims, x.strides, y.strides);
  return {{copy.dims, copy.from, copy.to}};
}

Copies frames(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const ops::Rearrangement copy = ops::frames_copy(*problem.node, y.dims, x.strides, y.strides);
  return {{copy.dims, copy.from, copy.to}};
}

Reason refuses_any(const Problem& problem, const Properties&) {
  const size_t size = size_of(problem.inputs[0].dtype);
  return size == 1 || size == 2 || size == 4 || size == 8
             ? Reason()
             : Reason(Reason::element_type, "elements", "1, 2, 4 or 8 bytes");
}

Reason refuses_reshape(const Problem& problem, const Properties& properties) {
  if (reshape(problem).empty()) return {Reason::view, "each side"};
  return refuses_any(problem, properties);
}

Reason refuses_zeros(const Problem& problem, const Properties& properties) {
  if (problem.node->integer("zeros", 0) != 0) return {Reason::attribute, "zeros", "0"};
  return refuses_any(problem, properties);
}

Reason refuses_ranges(const Problem& problem, const Properties& properties) {
  for (size_t at = 1; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && !problem.inputs[at].constant) return {Reason::not_constant, "its range"};
  return refuses_any(problem, properties);
}

Reason refuses_split(const Problem& problem, const Properties& properties) {
  for (const Operand& operand : problem.outputs)
    if (!operand) return {Reason::absent, "an output"};
  return refuses_any(problem, properties);
}

class CopyStep : public Step {
 public:
  CopyStep(const Problem& problem, Device& device, const Copies& copies)
      : device_(device), element_(static_cast<int64_t>(size_of(problem.inputs[0].dtype))) {
    for (const Copy& copy : copies) {
      Map map = map_of(problem, copy);
      map.simplify();
      launches_.push_back({copy, MapLaunch(map, device)});
    }
  }
  /// Sizes, axes and ranges are in the launch already.
  bool reads(size_t input) const override {
    return std::any_of(launches_.begin(), launches_.end(), [&](const auto& one) { return one.first.input == input; });
  }
  bool copies(const Launch& at, std::vector<CopyPart>& parts) const override {
    bool all = true;
    each(at, [&](const MapLaunch& launch, Address from, Address to) {
      const std::optional<CopyPart> part = launch.copy(from, to);
      if (part) parts.push_back(*part);
      all &= part.has_value();
    });
    return all;
  }
  void enqueue(const Launch& at) const override {
    each(at, [&](const MapLaunch& launch, Address from, Address to) { launch.enqueue(device_, at, {from, to}); });
  }

 private:
  template <class Call>
  void each(const Launch& at, const Call& call) const {
    for (const auto& [copy, launch] : launches_) {
      const Address from = at.inputs[copy.input] + copy.from_begin * element_;
      const Address to = at.outputs[copy.output] + copy.to_begin * element_;
      // An input that was written in its place already.
      if (from != to || copy.from != copy.to) call(launch, from, to);
    }
  }

  Device& device_;
  int64_t element_;
  std::vector<std::pair<Copy, MapLaunch>> launches_;
};

template <Plan plan>
Reason fits(const Problem& problem) {
  for (const Copy& copy : plan(problem)) {
    Map map = map_of(problem, copy);
    if (!map.simplify()) return {Reason::too_many, most_map_axes, "axes"};
  }
  return {};
}

template <Plan plan, Reason (*refuses)(const Problem&, const Properties&)>
Reason refuses_copy(const Problem& problem, const Properties& properties) {
  if (const Reason reason = refuses(problem, properties)) return reason;
  return fits<plan>(problem);
}

template <Plan plan>
std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Tactic tactic{"copy", {}, {}};
  for (const Copy& copy : plan(problem)) {
    Map map = map_of(problem, copy);
    map.simplify();
    tactic.sources.push_back(map.source());
  }
  return {tactic};
}

template <Plan plan>
std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic&) {
  return std::make_unique<CopyStep>(problem, device, plan(problem));
}

template <Plan plan, Reason (*refuses)(const Problem&, const Properties&)>
Kernel kernel(const char* op) {
  return {op, "copy", 1, refuses_copy<plan, refuses>, tactics<plan>, make<plan>};
}

struct Register {
  Register() {
    for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
      KernelRegistrar(kernel<reshape, refuses_reshape>(op));
    KernelRegistrar(kernel<concat, refuses_any>("Concat"));
    KernelRegistrar(kernel<split, refuses_split>("Split"));
    KernelRegistrar(kernel<transpose, refuses_any>("Transpose"));
    for (const char* op : {"DepthToSpace", "SpaceToDepth"}) KernelRegistrar(kernel<rearrange, refuses_any>(op));
    KernelRegistrar(kernel<frames, refuses_zeros>("tenon:Frames"));
    KernelRegistrar(kernel<expand, refuses_any>("Expand"));
    KernelRegistrar(kernel<slice, refuses_ranges>("Slice"));
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cuda::copy
