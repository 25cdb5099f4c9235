// SPDX-License-Identifier: Apache-2.0
#include "kinds.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

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

bool reads_a_image(const Case& one) {
  const ir::Node& node = one.node();
  return (node.op == "Conv" || node.op == "tenon:ConvMaxPool") &&
         (node.text("input_layout", "") == "NCHW" || node.text("conv.input_layout", "") == "NCHW");
}

constexpr std::pair<Kind, const char*> names[] = {{Kind::f32, "f32"},
                                                  {Kind::tf32, "tf32"},
                                                  {Kind::f16, "f16"},
                                                  {Kind::f16_to_f32, "f16_to_f32"},
                                                  {Kind::f32_to_f16, "f32_to_f16"},
                                                  {Kind::bf16, "bf16"}};

/// Whether a kind in 16 bits changes a type.
bool has_floats(const Case& one) {
  for (size_t at = 0; at < one.operands.size(); ++at)
    if (one.operands[at].dtype() == DType::f32 && !one.constant[at]) return true;
  for (ir::ValueId id : one.graph.outputs)
    if (one.graph.value(id).dtype == DType::f32) return true;
  return false;
}

bool has_products(const Case& one) {
  return is_product(one) || ops::has_trait(one.node().op, ops::Trait::convolution) ||
         one.node().op == "tenon:InvertedBottleneck" || one.node().op == "tenon:ConvMaxPool" ||
         one.node().op == "tenon:DotAttention";
}

/// What the words behind the arrow say of a kind.
struct Wanted {
  std::vector<std::string> kernels;
  bool none = false;
};

Wanted wanted(const Case& one, Kind kind) {
  Wanted result;
  for (const std::string& word : one.gpu_kernels) {
    const size_t colon = word.find(':');
    if (colon != std::string::npos) {
      bool meant = false;
      for (const std::string& text : split(word.substr(0, colon), ',')) {
        const auto known =
            std::find_if(std::begin(names), std::end(names), [&](auto& it) { return it.second == text; });
        if (known == std::end(names)) throw std::runtime_error(one.name() + ": no kind is called " + text);
        meant |= known->first == kind;
      }
      if (!meant) continue;
    }
    for (std::string& kernel : split(colon == std::string::npos ? word : word.substr(colon + 1), ',')) {
      std::replace(kernel.begin(), kernel.end(), '_', ' ');
      if (kernel == "none") result.none = true;
      else result.kernels.push_back(std::move(kernel));
    }
  }
  return result;
}

/// Kernels that are made of what compute capability 9.0 brought.
bool needs_hopper(const std::string& kernel) {
  static const std::set<std::string> list = {"cluster", "wgmma", "tf32", "attention wgmma", "wide pixels"};
  return list.contains(kernel);
}

}  // namespace

const char* name(Kind kind) {
  return std::find_if(std::begin(names), std::end(names), [&](auto& it) { return it.first == kind; })->second;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = read_cases("tests/ops");
  for (Case& one : read_cases("tests/cuda")) {
    one.gpu_kernels = std::move(one.kernels);
    if (one.gpu_kernels.empty()) throw std::runtime_error(one.name() + ": names no kernel");
    cases.push_back(std::move(one));
  }
  return cases;
}

const std::vector<std::pair<Case, std::vector<Tensor>>>& cases_with_outputs() {
  static const auto list = [] {
    std::vector<std::pair<Case, std::vector<Tensor>>> made;
    for (Case& one : all_cases()) {
      std::vector<Tensor> outputs = reference(one);
      made.emplace_back(std::move(one), std::move(outputs));
    }
    return made;
  }();
  return list;
}

bool is_product(const Case& one) {
  return one.node().op == "Conv" || one.node().op == "Gemm" || one.node().op == "MatMul";
}

bool says(const Case& one, std::string_view kind) {
  return std::any_of(one.gpu_kernels.begin(), one.gpu_kernels.end(),
                     [&](const std::string& word) { return word.find(kind) != std::string::npos; });
}

bool is_weight_only(const Case& one) { return one.node().op == "tenon:WeightOnlyMatMul"; }

bool is_weights(const Case& one, size_t operand) {
  if (one.node().op == "tenon:InvertedBottleneck") return operand % 2 == 1 && operand < ops::bottleneck_residual;
  if (one.node().op == "tenon:PointwisePair") return operand == 1 || operand == 4;
  return operand == 1 &&
         (is_product(one) || one.node().op == "tenon:ConvMaxPool" || one.node().op == "tenon:Recurrence");
}

std::vector<Kind> kinds_of(const Case& one) {
  if (!has_floats(one)) return {Kind::f32};
  // 16-bit weights of f32 are the CPU's: on a GPU passes cast either.
  if (is_product(one) && one.operands[0].dtype() == DType::f32 && one.operands[1].dtype() != DType::f32)
    return {Kind::f32};
  std::vector<Kind> kinds = {Kind::f32, Kind::f16, Kind::bf16};
  if (is_product(one) || one.node().op == "tenon:DotAttention") kinds.push_back(Kind::tf32);
  // An f32 result shows that weights are rounded to 16 bits, but where they are exact in them.
  if (is_product(one) || (is_weight_only(one) && says(one, "f16_to_f32")) || one.node().op == "tenon:BoxHead")
    kinds.push_back(Kind::f16_to_f32);
  if (reads_a_image(one)) kinds.push_back(Kind::f32_to_f16);
  return kinds;
}

bool is_16_bit(Kind kind) { return kind != Kind::f32 && kind != Kind::tf32; }

backends::Problem problem_of(const Case& one, const std::vector<Tensor>& outputs, Kind kind, Gaps gaps,
                             std::vector<Tensor>& operands) {
  backends::Problem problem = problem_of(one, outputs, 0, gaps);
  operands = one.operands;
  problem.tf32 = kind == Kind::tf32;
  // Infinities reach their own results alone where products are summed as written.
  problem.strict = one.odd && has_products(one);
  if (!is_16_bit(kind)) return problem;
  const DType type = kind == Kind::bf16 ? DType::bf16 : DType::f16;
  for (size_t at = 0; at < problem.inputs.size() && kind != Kind::f32_to_f16; ++at) {
    if (!problem.inputs[at] || problem.inputs[at].constant || problem.inputs[at].dtype != DType::f32) continue;
    // A residual is of the result's type, a mask is added in f32.
    if (kind == Kind::f16_to_f32 && at == 3 && (is_product(one) || is_weight_only(one))) continue;
    if (at == 3 && problem.node->op == "tenon:DotAttention") continue;
    operands[at] = narrowed(operands[at], type);
    problem.inputs[at].dtype = type;
  }
  if (kind != Kind::f16_to_f32)
    for (backends::Operand& operand : problem.outputs)
      if (operand.dtype == DType::f32) operand.dtype = type;
  return problem;
}

std::string fault(const Case& one, Kind kind, const backends::Problem& problem, const cuda::Properties& gpu) {
  if (gpu.capability() < 80) return "";
  std::set<std::string> takes;
  for (const cuda::Choice& choice : cuda::choices(problem, gpu)) takes.insert(choice.kernel->name);
  std::map<std::string, std::string> refused;
  bool e4m3 = false;
  for (const auto& [kernel, reason] : cuda::refused(problem, gpu)) {
    refused[kernel] = reason.text();
    e4m3 |= reason.code == backends::Reason::capability && reason.values[0].word == std::string_view("e4m3");
  }
  const auto [kernels, none] = wanted(one, kind);
  if (none) return takes.empty() ? "" : "is taken by " + *takes.begin() + ", though the case says none";
  for (const std::string& kernel : kernels) {
    if (takes.contains(kernel) || e4m3) continue;
    if (!refused.contains(kernel)) return "no kernel is called " + kernel;
    if (gpu.capability() >= 90 || !needs_hopper(kernel)) return kernel + " refuses: " + refused[kernel];
  }
  if (takes.empty() && !e4m3) return "nothing takes it: " + cuda::refusals(problem, gpu);
  return "";
}

}  // namespace tenon::tests
