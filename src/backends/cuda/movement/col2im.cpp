// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/col2im_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::col2im {
namespace {

using Params = Col2ImParams;
constexpr int64_t most = int64_t{1} << 31;

Reason shape_of(const Problem& problem, Params& params) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!x.dense() || !y.dense()) return {Reason::view, "an operand"};
  const Tensor &image = problem.inputs[1].constant, &block = problem.inputs[2].constant;
  if (!image || !block) return {Reason::not_constant, "the sizes of image and block"};
  const auto rank = static_cast<size_t>(image.elements());
  if (rank < 1 || rank > 3) return {Reason::too_many, 3, "axes of an image"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  if (x.dims.elements() >= most || y.dims.elements() >= most) return Reason::too_large;
  const ir::Node& node = *problem.node;
  const std::vector<int64_t> ones(rank, 1), zeros(rank * 2, 0);
  const auto strides = node.integers("strides", ones), dilations = node.integers("dilations", ones),
             pads = node.integers("pads", zeros);
  params = {};
  params.count = y.dims.elements(), params.taps = params.blocks = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const bool has = axis + rank >= 3;
    const size_t own = has ? axis + rank - 3 : 0;
    const int64_t size = has ? image.data<int64_t>()[own] : 1, taps = has ? block.data<int64_t>()[own] : 1;
    const int64_t stride = has ? strides[own] : 1, dilation = has ? dilations[own] : 1;
    const int64_t before = has ? pads[own] : 0, after = has ? pads[own + rank] : 0;
    const int64_t room = size + before + after - dilation * (taps - 1) - 1;
    if (room < 0 || std::max({size, stride, dilation * taps, size + before + after}) >= most) return Reason::too_large;
    params.image[axis] = static_cast<int>(size), params.block[axis] = static_cast<int>(taps);
    params.strides[axis] = static_cast<int>(stride), params.dilations[axis] = static_cast<int>(dilation);
    params.pads[axis] = static_cast<int>(before), params.steps[axis] = static_cast<int>(room / stride + 1);
    params.taps *= params.block[axis], params.blocks *= params.steps[axis];
  }
  return {};
}

Reason refuses(const Problem& problem, const Properties&) {
  Params params;
  return shape_of(problem, params);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  return {{"sums", {{"col2im.cu", {define_type("ELEMENT", problem.inputs[0].dtype)}, ""}}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params;
  shape_of(problem, params);
  return simple_step<1>(device, tactic, "col2im", params, grid_for(params.count));
}

const KernelRegistrar registered({"Col2Im", "col2im", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::col2im
