// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cuda/movement/pad_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::pad {
namespace {

constexpr size_t most_axes = 6;

using Params = PadParams;

enum Mode { constant, edge, reflect, wrap };

/// Elements to put before each axis; negative ones are cut off.
Reason before_of(const Problem& problem, std::vector<int64_t>& before) {
  const Tensor& pads = problem.inputs[1].constant;
  const bool some = problem.inputs.size() > 3 && problem.inputs[3];
  if (!pads || pads.dtype() != DType::i64 || (some && !problem.inputs[3].constant))
    return {Reason::not_constant, "its pads"};
  const auto rank = static_cast<int64_t>(problem.inputs[0].dims.rank());
  before.assign(static_cast<size_t>(rank), 0);
  for (int64_t at = 0; at < pads.elements() / 2; ++at) {
    int64_t axis = at;
    if (some) {
      const Tensor& axes = problem.inputs[3].constant;
      axis = axes.dtype() == DType::i32 ? axes.data<int32_t>()[at] : axes.data<int64_t>()[at];
    }
    before[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = pads.data<int64_t>()[at];
  }
  return {};
}

/// Axes as the kernel walks them: those of one element left out, neighbours joined along which nothing is padded.
struct Space {
  std::vector<int64_t> sizes, dims, before, xs, ys;  // sizes: of the input, dims: of the result
  int vector = 1;                                    // elements of the last axis at a time

  explicit Space(const Problem& problem) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    std::vector<int64_t> all;
    before_of(problem, all);
    const auto kept = [&](size_t axis) { return all[axis] == 0 && x.dims[axis] == y.dims[axis]; };
    for (size_t axis = 0; axis < all.size(); ++axis) {
      if (x.dims[axis] == 1 && kept(axis)) continue;
      const bool joins = !dims.empty() && kept(axis) && before.back() == 0 && sizes.back() == dims.back() &&
                         xs.back() == x.strides[axis] * x.dims[axis] && ys.back() == y.strides[axis] * y.dims[axis];
      if (joins) {
        sizes.back() *= x.dims[axis], dims.back() *= y.dims[axis];
        xs.back() = x.strides[axis], ys.back() = y.strides[axis];
        continue;
      }
      sizes.push_back(x.dims[axis]), dims.push_back(y.dims[axis]), before.push_back(all[axis]);
      xs.push_back(x.strides[axis]), ys.push_back(y.strides[axis]);
    }
    const bool whole = !dims.empty() && before.back() == 0 && sizes.back() == dims.back() && xs.back() == 1 &&
                       ys.back() == 1 && x.aligned && y.aligned;
    if (!whole) return;
    const auto divides = [&](int64_t size) {
      bool fits = dims.back() % size == 0;
      for (size_t axis = 0; axis + 1 < dims.size(); ++axis) fits = fits && xs[axis] % size == 0 && ys[axis] % size == 0;
      return fits;
    };
    for (vector = static_cast<int>(16 / size_of(x.dtype)); !divides(vector);) vector /= 2;
  }
};

Mode mode_of(const Problem& problem) {
  const std::string mode = problem.node->text("mode", "constant");
  return mode == "edge" ? edge : mode == "reflect" ? reflect : mode == "wrap" ? wrap : constant;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  if (x.dims.elements() == 0) return Reason::empty;
  if (y.dims.elements() >= int64_t{1} << 31 || x.dims.elements() >= int64_t{1} << 31) return Reason::too_large;
  const bool filled = problem.inputs.size() > 2 && problem.inputs[2];
  if (filled && !problem.inputs[2].constant) return {Reason::not_constant, "what it pads with"};
  if (filled && problem.inputs[2].dtype != x.dtype && !(is_16_bit(x.dtype) && problem.inputs[2].dtype == DType::f32))
    return {Reason::element_type, "what it pads with", "the input's type"};
  std::vector<int64_t> before;
  return before_of(problem, before);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const char* type = bits_name(size_of(problem.inputs[0].dtype));
  const Space space(problem);
  Source source{"pad.cu", {}, ""};
  source.defines = {std::string("ELEMENT=") + type, define("MODE", mode_of(problem)), define("VEC", space.vector),
                    define("AXES", static_cast<int64_t>(space.dims.size()))};
  return {{"pad", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const Space space(problem);
  Params params{};
  for (size_t at = 0; at < space.dims.size(); ++at) {
    const bool last = at + 1 == space.dims.size();
    const int64_t step = last ? space.vector : 1;
    params.xs[at] = space.xs[at] * step, params.ys[at] = space.ys[at] * step;
    params.sizes[at] = static_cast<int>(space.sizes[at] / step), params.before[at] = static_cast<int>(space.before[at]);
    params.dims[at] = static_cast<unsigned>(space.dims[at] / step);
  }
  params.count = static_cast<unsigned>(y.dims.elements() / space.vector);
  if (problem.inputs.size() > 2 && problem.inputs[2]) {
    const Tensor& fill = problem.inputs[2].constant;
    if (fill.dtype() == x.dtype) std::memcpy(&params.fill, fill.data(), size_of(x.dtype));
    else params.fill = bits16_of(*fill.data<float>(), x.dtype);
  }
  return simple_step<1>(device, tactic, "pad", params, grid_for(params.count));
}

const KernelRegistrar registered({"Pad", "pad", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::pad
