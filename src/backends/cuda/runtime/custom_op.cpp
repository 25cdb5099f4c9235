// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/custom_op.h"

#include <algorithm>

#include "backends/cuda/runtime/kernel.h"
#include "ops/custom_op.h"

namespace tenon::cuda {
namespace {

class CustomStep : public Step {
 public:
  explicit CustomStep(const Problem& problem) : node_(*problem.node) {
    for (const Operand& operand : problem.inputs) inputs_.push_back(tensor_of(operand));
    for (const Operand& operand : problem.outputs) outputs_.push_back(tensor_of(operand));
  }
  bool leaves_breadcrumbs() const override { return false; }
  void enqueue(const Launch& launch) const override {
    std::vector<tenon_op_tensor> inputs = inputs_, outputs = outputs_;
    for (size_t at = 0; at < inputs.size(); ++at) inputs[at].data = reinterpret_cast<void*>(launch.inputs[at]);
    for (size_t at = 0; at < outputs.size(); ++at) outputs[at].data = reinterpret_cast<void*>(launch.outputs[at]);
    const tenon_custom_op& op = *ops::custom_op(node_.op);
    ops::call_custom_op(node_, [&](const tenon_op_node* node) {
      return op.enqueue(op.context, &ops::custom_op_api(), node, inputs.data(), inputs.size(), outputs.data(),
                        outputs.size(), launch.stream);
    });
  }

 private:
  static tenon_op_tensor tensor_of(const Operand& operand) {
    tenon_op_tensor tensor{{static_cast<tenon_dtype>(operand.dtype), static_cast<int32_t>(operand.dims.rank()), {}},
                           nullptr};
    std::copy(operand.dims.begin(), operand.dims.end(), tensor.type.dims);
    return tensor;
  }

  ir::Node node_;
  std::vector<tenon_op_tensor> inputs_, outputs_;
};

Reason refuses(const Problem& problem, const Properties&) {
  for (const auto* operands : {&problem.inputs, &problem.outputs})
    for (const Operand& operand : *operands)
      if (operand && !operand.dense()) return {Reason::view, "an operand"};
  return {};
}

std::vector<Tactic> tactics(const Problem&, const Properties&) { return {{"plugin", {}, {}}}; }

std::unique_ptr<Step> make(const Problem& problem, Device&, const Tactic&) {
  return std::make_unique<CustomStep>(problem);
}

}  // namespace

void add_custom_op(const tenon_custom_op& op) {
  if (op.enqueue) KernelRegistrar({ops::id_of(op), "plugin", 1, refuses, tactics, make});
}

}  // namespace tenon::cuda
