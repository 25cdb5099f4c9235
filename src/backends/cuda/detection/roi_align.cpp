// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/detection/roi_align_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::roi_align {
namespace {

using Params = RoiAlignParams;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &regions = problem.inputs[1], &images = problem.inputs[2],
                &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(regions.dtype) || x.dtype != y.dtype)
    return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (images.dtype != DType::i64 && images.dtype != DType::i32) return {Reason::element_type, "images", "i64 or i32"};
  if (!regions.dense() || !images.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() != 4 || regions.dims.rank() != 2 || regions.dims[1] != 4)
    return {Reason::shape, "the input", "four axes, and regions of four numbers"};
  if (images.dims.elements() != y.dims[0] || regions.dims[0] != y.dims[0])
    return {Reason::shape, "regions", "an image each"};
  if (x.dims.elements() == 0) return Reason::empty;
  return y.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const ir::Node& node = *problem.node;
  Source source{"roi_align.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define_type("PLACE", problem.inputs[1].dtype),
                    define_type("INDEX", problem.inputs[2].dtype), define("LARGEST", node.text("mode", "avg") == "max"),
                    define("HALF", node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel")};
  return {{"sample", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  Params params{};
  for (size_t at = 0; at < 4; ++at) params.xs[at] = x.strides[at], params.ys[at] = y.strides[at];
  params.count = number(x.dims[0]), params.channels = number(x.dims[1]);
  params.in_h = number(x.dims[2]), params.in_w = number(x.dims[3]);
  params.out_h = number(y.dims[2]), params.out_w = number(y.dims[3]);
  params.ratio = number(problem.node->integer("sampling_ratio", 0));
  params.scale = problem.node->real("spatial_scale", 1);
  params.elements = static_cast<unsigned>(y.dims.elements());
  return simple_step<3>(device, tactic, "roi_align", params, grid_for(params.elements));
}

const KernelRegistrar registered({"RoiAlign", "sample", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::roi_align
