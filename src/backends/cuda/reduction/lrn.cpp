// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/lrn_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::lrn {
namespace {

using Params = LrnParams;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!x.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() < 2 || x.dims.elements() == 0) return Reason::empty;
  return x.dims.elements() >= int64_t{1} << 38 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source{"lrn.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype)};
  return {{"windows", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const ir::Node& node = *problem.node;
  const Dims& dims = problem.inputs[0].dims;
  const bool last = node.text("layout", "") == "NHWC";
  const int64_t channels = last ? dims.back() : dims[1], size = node.integer("size", 1);
  const int64_t before = std::min((size - 1) / 2, channels), after = std::min(size - 1 - (size - 1) / 2, channels);
  const Params params{0,
                      0,
                      dims.elements(),
                      last ? 1 : dims.elements() / dims[0] / channels,
                      static_cast<int>(channels),
                      static_cast<int>(before),
                      static_cast<int>(after),
                      node.real("alpha", 1e-4f) / static_cast<float>(size),
                      node.real("beta", 0.75f),
                      node.real("bias", 1.f)};
  return simple_step<1>(device, tactic, "lrn", params, grid_for(params.count));
}

const KernelRegistrar registered({"LRN", "lrn", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::lrn
