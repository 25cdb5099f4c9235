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
  const std::string mode = std::to_string(mode_of(problem));
  return {{"pad", {{"pad.cu", {std::string("ELEMENT=") + type, "MODE=" + mode}, ""}}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  std::vector<int64_t> before;
  before_of(problem, before);
  Params params{};
  const size_t gap = most_axes - x.dims.rank();
  for (size_t at = 0; at < most_axes; ++at) {
    const bool real = at >= gap;
    params.xs[at] = real ? x.strides[at - gap] : 0, params.ys[at] = real ? y.strides[at - gap] : 0;
    params.sizes[at] = real ? static_cast<int>(x.dims[at - gap]) : 1;
    params.before[at] = real ? static_cast<int>(before[at - gap]) : 0;
    params.dims[at] = real ? static_cast<unsigned>(y.dims[at - gap]) : 1;
  }
  params.count = static_cast<unsigned>(y.dims.elements());
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
