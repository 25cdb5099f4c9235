// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/grid_sample_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::grid_sample {
namespace {

using Params = GridSampleParams;

bool is_nearest(const ir::Node& node) { return node.text("mode", "linear") == "nearest"; }

std::string place_type(DType type) { return type == DType::f64 ? "PLACE=double" : define_type("PLACE", type); }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &grid = problem.inputs[1], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!is_real(grid.dtype) && grid.dtype != DType::f64)
    return {Reason::element_type, "places", "f64, f32, f16 or bf16"};
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  const std::string mode = problem.node->text("mode", "linear");
  if (mode != "linear" && mode != "bilinear" && mode != "nearest")
    return {Reason::attribute, "mode", "nearest or linear"};
  if (x.dims.elements() == 0) return Reason::empty;
  return y.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const ir::Node& node = *problem.node;
  const std::string padding = node.text("padding_mode", "zeros");
  Source source{"grid_sample.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), place_type(problem.inputs[1].dtype),
                    define("NEAREST", is_nearest(node)),
                    define("PADDING", padding == "border"       ? 1
                                      : padding == "reflection" ? 2
                                                                : 0),
                    define("CORNERS", node.integer("align_corners", 0) != 0)};
  return {{"sample", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &grid = problem.inputs[1], &y = problem.outputs[0];
  Params params{};
  for (size_t at = 0; at < 4; ++at)
    params.xs[at] = x.strides[at], params.gs[at] = grid.strides[at], params.ys[at] = y.strides[at];
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  params.channels = number(y.dims[1]), params.in_h = number(x.dims[2]), params.in_w = number(x.dims[3]);
  params.out_h = number(y.dims[2]), params.out_w = number(y.dims[3]);
  params.count = static_cast<unsigned>(y.dims.elements());
  return simple_step<2>(device, tactic, "grid_sample", params, grid_for(params.count));
}

const KernelRegistrar registered({"GridSample", "sample", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::grid_sample
