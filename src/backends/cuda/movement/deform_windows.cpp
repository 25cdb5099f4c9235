// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/deform_windows_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::deform_windows {
namespace {

using Params = DeformWindowsParams;

bool is_masked(const Problem& problem) { return problem.inputs.size() > 2 && problem.inputs[2]; }

int64_t groups_of(const Problem& problem) { return problem.node->integer("offset_group", 1); }

/// Channels a thread takes: they have the same offsets.
int vector_of(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const int64_t together = x.dims[3] / groups_of(problem);
  int vector = static_cast<int>(16 / size_of(x.dtype));
  while (vector > 1 && (together % vector || !x.aligned || !y.aligned)) vector /= 2;
  return vector;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &offsets = problem.inputs[1], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(offsets.dtype) || x.dtype != y.dtype)
    return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (is_masked(problem) && problem.inputs[2].dtype != offsets.dtype) return Reason::mixed_types;
  if (x.dims.rank() != 4 || offsets.dims.rank() != 4) return {Reason::shape, "the image", "four axes"};
  const auto kernel = problem.node->integers("kernel_shape");
  const int64_t groups = groups_of(problem), taps = kernel[0] * kernel[1];
  const bool few = groups <= offsets.dims[3] && taps <= offsets.dims[3];  // no product below overflows
  const bool fits =
      few && x.dims[3] % groups == 0 && offsets.dims[0] == x.dims[0] && offsets.dims[3] == 2 * groups * taps;
  if (!fits) return {Reason::shape, "offsets", "two for each tap of each group"};
  if (is_masked(problem) && problem.inputs[2].dims.elements() * 2 != offsets.dims.elements())
    return {Reason::shape, "the mask", "an element for each tap of each group"};
  for (const Operand& operand : problem.inputs)
    if (operand && !operand.dense()) return {Reason::view, "an operand"};
  if (!y.dense()) return {Reason::view, "a result"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  return y.dims.elements() >= int64_t{1} << 40 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const auto kernel = problem.node->integers("kernel_shape");
  Source source{"deform_windows.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype),
                    define_type("PLACE", problem.inputs[1].dtype),
                    define("MASKED", is_masked(problem)),
                    define("KH", kernel[0]),
                    define("KW", kernel[1]),
                    define("VEC", vector_of(problem))};
  return {{"sample", {source}, {}}};
}

class DeformWindowsStep : public Step {
 public:
  DeformWindowsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "deform_windows")), masked_(is_masked(problem)) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    const int vector = vector_of(problem);
    const ir::Node& node = *problem.node;
    const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1}),
               pads = node.integers("pads", {0, 0, 0, 0});
    params_.count = y.dims.elements() / vector;
    params_.in_h = number(x.dims[1]), params_.in_w = number(x.dims[2]);
    params_.channels = number(x.dims[3] / vector), params_.group = number(x.dims[3] / groups_of(problem) / vector);
    params_.out_h = number(y.dims[1]), params_.out_w = number(y.dims[2]);
    params_.stride_h = number(strides[0]), params_.stride_w = number(strides[1]);
    params_.dilation_h = number(dilations[0]), params_.dilation_w = number(dilations[1]);
    params_.top = number(pads[0]), params_.left = number(pads[1]);
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.offsets = at.inputs[1], params.mask = masked_ ? at.inputs[2] : 0;
    params.y = at.outputs[0];
    launch(device_, function_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool masked_;
  Params params_{};
};

const KernelRegistrar registered({"tenon:DeformWindows", "sample", 1, refuses, tactics, make_step<DeformWindowsStep>});

}  // namespace
}  // namespace tenon::cuda::deform_windows
