// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/tensor_scatter_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::tensor_scatter {
namespace {

bool has_indices(const Problem& problem) { return problem.inputs.size() > 2 && problem.inputs[2]; }

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", -2);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &past = problem.inputs[0], &update = problem.inputs[1];
  if (!*bits_name(size_of(past.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (update.dtype != past.dtype) return Reason::mixed_types;
  if (has_indices(problem) && problem.inputs[2].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  for (const Operand& operand : problem.inputs)
    if (operand && !operand.dense()) return {Reason::view, "an operand"};
  if (!problem.outputs[0].dense()) return {Reason::view, "a result"};
  if (update.dims[axis_of(problem)] > past.dims[axis_of(problem)]) return Reason::too_large;
  return past.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const std::string element = bits_name(size_of(problem.inputs[0].dtype));
  const bool circular = problem.node->text("mode", "linear") == "circular";
  return {{"cache", {{"tensor_scatter.cu", {"ELEMENT=" + element, define("CIRCULAR", circular)}, ""}}, {}}};
}

class TensorScatterStep : public Step {
 public:
  TensorScatterStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "tensor_scatter")), at_(has_indices(problem)) {
    const Dims& dims = problem.inputs[0].dims;
    const size_t axis = axis_of(problem);
    params_.all = dims.elements(), params_.one = dims.elements() / dims[0];
    params_.most = dims[axis], params_.count = problem.inputs[1].dims[axis], params_.inner = 1;
    for (size_t behind = axis + 1; behind < dims.rank(); ++behind) params_.inner *= dims[behind];
  }
  void enqueue(const Launch& at) const override {
    TensorScatterParams params = params_;
    params.past = at.inputs[0], params.update = at.inputs[1], params.y = at.outputs[0];
    if (at_) params.at = at.inputs[2];
    launch(device_, function_, grid_for(params.all), at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool at_;
  TensorScatterParams params_{};
};

const KernelRegistrar registered({"TensorScatter", "cache", 1, refuses, tactics, make_step<TensorScatterStep>});

}  // namespace
}  // namespace tenon::cuda::tensor_scatter
