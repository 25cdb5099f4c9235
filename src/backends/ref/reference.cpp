#include <tenon/error.h>

#include <cstring>

#include "backends/backend.h"
#include "backends/strided_copy.h"
#include "ops/op.h"

namespace tenon::backends {
namespace {

/// Runs the op's reference kernel on one worker; operands that are views go through dense copies.
class ReferenceStep : public Step {
 public:
  explicit ReferenceStep(const Problem& problem) : problem_(problem), node_(*problem.node) {
    for (const Operand& operand : problem_.inputs) inputs_.push_back(operand.constant);
    for (size_t at = 0; at < problem_.inputs.size(); ++at)
      if (const Operand& operand = problem_.inputs[at]; operand && !operand.constant && !operand.dense())
        inputs_[at] = Tensor(operand.dtype, operand.dims);
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    if (worker.id != 0) return;
    std::vector<Tensor> operands = inputs_;
    for (size_t at = 0; at < operands.size(); ++at) {
      const Operand& operand = problem_.inputs[at];
      if (!operand || operand.constant) continue;
      if (operand.dense()) operands[at] = Tensor::view(operand.dtype, operand.dims, inputs[at]);
      else strided_copy(operand.dims, size_of(operand.dtype), inputs[at], operand.strides, operands[at].data<std::byte>(), dense_strides(operand.dims));
    }
    std::vector<Tensor> results = ops::evaluate(node_, operands);
    for (size_t at = 0; at < results.size(); ++at) {
      const Operand& operand = problem_.outputs[at];
      if (!operand) continue;
      if (results[at].dtype() != operand.dtype || !(results[at].dims() == operand.dims))
        throw Error(Code::invalid_model, "node \"" + node_.label() + "\" (" + node_.op + ") gives " + results[at].dims().str(),
                    {.where = "node " + node_.label(), .why = "the model's sizes promise " + operand.dims.str()});
      strided_copy(operand.dims, size_of(operand.dtype), results[at].data<std::byte>(), dense_strides(operand.dims), outputs[at], operand.strides);
    }
  }

 private:
  Problem problem_;
  ir::Node node_;
  std::vector<Tensor> inputs_;
};

const char* refuses_nothing(const Problem&) { return nullptr; }
std::unique_ptr<Step> make(const Problem& problem) { return std::make_unique<ReferenceStep>(problem); }

}  // namespace

const Kernel& reference_kernel() {
  static const Kernel kernel{"", "ref", -1, refuses_nothing, make};
  return kernel;
}

}  // namespace tenon::backends
