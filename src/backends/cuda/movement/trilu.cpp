// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/movement/trilu_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::trilu {
namespace {

using Params = TriluParams;

bool is_given(const Problem& problem) { return problem.inputs.size() > 1 && problem.inputs[1]; }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (x.dims.rank() < 2) return {Reason::shape, "the input", "two axes"};
  if (is_given(problem) && (problem.inputs[1].dtype != DType::i64 || problem.inputs[1].dims.elements() != 1))
    return {Reason::shape, "the diagonal", "one number of i64"};
  return x.dense() && y.dense() ? Reason() : Reason(Reason::view, "an operand");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source{"trilu.cu", {}, ""};
  source.defines = {std::string("ELEMENT=") + bits_name(size_of(problem.inputs[0].dtype)),
                    define("UPPER", problem.node->integer("upper", 1) != 0), define("GIVEN", is_given(problem))};
  return {{"trilu", {source}, {}}};
}

class TriluStep : public Step {
 public:
  TriluStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "trilu")), given_(is_given(problem)) {
    const Dims& dims = problem.inputs[0].dims;
    params_.count = dims.elements();
    params_.rows = static_cast<int>(dims[dims.rank() - 2]), params_.columns = static_cast<int>(dims.back());
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.diagonal = given_ ? at.inputs[1] : 0, params.y = at.outputs[0];
    launch(device_, function_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool given_;
  Params params_{};
};

const KernelRegistrar registered({"Trilu", "trilu", 1, refuses, tactics, make_step<TriluStep>});

}  // namespace
}  // namespace tenon::cuda::trilu
