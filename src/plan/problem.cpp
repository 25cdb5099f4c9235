#include "backends/cpu/isa.h"
#include "plan/plan.h"

namespace tenon::plan {

bool is_fused(const Plan& plan) {
  return plan.device == "cpu" && plan.precision == "int8" && plan.isa != cpu::isa_name(cpu::Isa::portable);
}

backends::Problem problem_of(const ir::Graph& graph, ir::NodeId id, const Layout& layout, int threads,
                             const Plan& plan) {
  const ir::Node& node = graph.node(id);
  backends::Problem problem;
  problem.node = &node;
  problem.threads = threads;
  problem.strict = plan.strict;
  problem.fused = is_fused(plan);
  problem.bf16 = plan.device == "cpu" && (plan.bf16 || node.has(backends::rounding));
  const auto operand = [&](ir::ValueId value) {
    backends::Operand result;
    if (value == ir::no_value) return result;
    result.dtype = graph.value(value).dtype;
    result.dims = layout.places[value].dims;
    result.strides = layout.places[value].strides;
    result.constant = graph.value(value).constant;
    result.aligned = layout.places[value].offset * static_cast<int64_t>(size_of(result.dtype)) % 16 == 0;
    return result;
  };
  for (ir::ValueId input : node.inputs) problem.inputs.push_back(operand(input));
  for (ir::ValueId output : node.outputs) problem.outputs.push_back(operand(output));
  return problem;
}

}  // namespace tenon::plan
