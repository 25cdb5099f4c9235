// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <cstring>

#include "backends/kernel.h"
#include "backends/strided_copy.h"
#include "ops/op.h"

namespace tenon::backends {
namespace {

/// Runs the op's reference kernel on one worker, into the outputs' own memory; operands that are views go through dense
/// copies.
class ReferenceStep : public Step {
 public:
  explicit ReferenceStep(const Problem& problem)
      : problem_(problem), node_(*problem.node), results_(problem.outputs.size()) {
    for (const Operand& operand : problem_.inputs)
      operands_.push_back(operand.constant ? operand.constant : dense_copy(operand));
    for (const Operand& operand : problem_.outputs) spare_.push_back(dense_copy(operand));
  }

  bool shared() const override { return false; }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    if (worker.id != 0) return;
    for (size_t at = 0; at < operands_.size(); ++at) {
      const Operand& operand = problem_.inputs[at];
      if (!operand || operand.constant) continue;
      if (operand.dense()) operands_[at] = Tensor::view(operand.dtype, operand.dims, inputs[at]);
      else
        strided_copy(operand.dims, size_of(operand.dtype), inputs[at], operand.strides, operands_[at].data<std::byte>(),
                     dense_strides(operand.dims));
    }
    for (size_t at = 0; at < results_.size(); ++at) {
      const Operand& operand = problem_.outputs[at];
      if (operand) results_[at] = operand.dense() ? Tensor::view(operand.dtype, operand.dims, outputs[at]) : spare_[at];
    }
    ops::evaluate(node_, operands_, results_);
    for (size_t at = 0; at < results_.size(); ++at) {
      const Operand& operand = problem_.outputs[at];
      if (!operand) continue;
      if (results_[at].dtype() != operand.dtype || !(results_[at].dims() == operand.dims))
        throw Error(Code::invalid_model,
                    "node \"" + node_.label() + "\" (" + node_.op + ") gives " + results_[at].dims().str(),
                    {.where = "node " + node_.label(), .why = "the model's sizes promise " + operand.dims.str()});
      if (results_[at].data<std::byte>() != outputs[at])
        strided_copy(operand.dims, size_of(operand.dtype), results_[at].data<std::byte>(), dense_strides(operand.dims),
                     outputs[at], operand.strides);
      results_[at] = Tensor();
    }
  }

 private:
  static Tensor dense_copy(const Operand& operand) {
    return operand && !operand.dense() ? Tensor(operand.dtype, operand.dims) : Tensor();
  }

  Problem problem_;
  ir::Node node_;
  // Kept from run to run, so that a run allocates nothing of its own.
  mutable std::vector<Tensor> operands_, spare_, results_;
};

Reason refuses_nothing(const Problem&) { return {}; }
std::unique_ptr<Step> make(const Problem& problem) { return std::make_unique<ReferenceStep>(problem); }

}  // namespace

const Kernel& reference_kernel() {
  static const Kernel kernel{"", "ref", -1, refuses_nothing, make};
  return kernel;
}

}  // namespace tenon::backends
