#include "kinds.h"

#include "ops/half.h"
#include "ops/inverted_bottleneck.h"

namespace tenon::tests {
namespace {

Tensor narrowed(const Tensor& tensor, DType type) {
  Tensor result(type, tensor.dims());
  const auto bits = type == DType::f16 ? ops::f16_bits : ops::bf16_bits;
  for (int64_t at = 0; at < tensor.elements(); ++at) result.data<uint16_t>()[at] = bits(tensor.data<float>()[at]);
  return result;
}

bool reads_a_picture(const Case& one) {
  const ir::Node& node = one.node();
  return (node.op == "Conv" || node.op == "tenon:ConvMaxPool") &&
         (node.text("input_layout", "") == "NCHW" || node.text("conv.input_layout", "") == "NCHW");
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases = read_cases("tests/ops");
  for (Case& one : read_cases("tests/cuda")) cases.push_back(std::move(one));
  return cases;
}

bool is_product(const Case& one) {
  return one.node().op == "Conv" || one.node().op == "Gemm" || one.node().op == "MatMul";
}

bool is_weights(const Case& one, size_t operand) {
  if (one.node().op == "tenon:InvertedBottleneck") return operand % 2 == 1 && operand < ops::bottleneck_residual;
  return operand == 1 && (is_product(one) || one.node().op == "tenon:ConvMaxPool");
}

std::vector<Kind> kinds_of(const Case& one) {
  std::vector<Kind> kinds = {Kind::f32, Kind::f16, Kind::bf16};
  if (is_product(one) || one.node().op == "tenon:DotAttention") kinds.push_back(Kind::tf32);
  if (is_product(one) || one.node().op == "tenon:BoxHead") kinds.push_back(Kind::f16_to_f32);
  if (reads_a_picture(one)) kinds.push_back(Kind::f32_to_f16);
  return kinds;
}

bool is_narrow(Kind kind) { return kind != Kind::f32 && kind != Kind::tf32; }

backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, Kind kind, bool views,
                             std::vector<Tensor>& operands) {
  backends::Problem problem = problem_of(one, outputs, 0, views);
  operands = one.operands;
  problem.tf32 = kind == Kind::tf32;
  if (!is_narrow(kind)) return problem;
  const DType type = kind == Kind::bf16 ? DType::bf16 : DType::f16;
  for (size_t at = 0; at < problem.inputs.size() && kind != Kind::f32_to_f16; ++at) {
    if (!problem.inputs[at] || problem.inputs[at].constant || problem.inputs[at].dtype != DType::f32) continue;
    if (kind == Kind::f16_to_f32 && at == 3 && problem.node->op == "Conv") continue;  // of the output's type
    if (at == 3 && problem.node->op == "tenon:DotAttention") continue;                      // the mask
    operands[at] = narrowed(operands[at], type);
    problem.inputs[at].dtype = type;
  }
  if (kind != Kind::f16_to_f32)
    for (backends::Operand& operand : problem.outputs)
      if (operand.dtype == DType::f32) operand.dtype = type;
  return problem;
}

}  // namespace tenon::tests
