#include "backends/backend.h"

#include <algorithm>
#include <map>

#include "ops/op.h"

namespace tenon::backends {
namespace {
std::multimap<std::string, Kernel>& registry() {
  static std::multimap<std::string, Kernel> kernels;
  return kernels;
}

std::vector<PairKernel>& pair_registry() {
  static std::vector<PairKernel> kernels;
  return kernels;
}

void append(std::string& text, const Operand& operand) {
  text += ' ';
  if (!operand) {
    text += '_';
    return;
  }
  text += name(operand.dtype);
  text += ':' + operand.dims.str();
  if (!operand.dense()) text += '/' + operand.strides.str();
  if (operand.constant) text += '!';
  if (!operand.aligned) text += '~';
}
}  // namespace

Dims dense_strides(const Dims& dims) {
  Dims strides = dims;
  int64_t stride = 1;
  for (size_t at = dims.rank(); at-- > 0;) {
    strides[at] = stride;
    // Beside a size of 0 the others may be anything; strides mean nothing then.
    if (__builtin_mul_overflow(stride, dims[at], &stride)) stride = 0;
  }
  return strides;
}

bool Operand::dense() const {
  int64_t stride = 1;
  for (size_t at = dims.rank(); at-- > 0;) {
    if (dims[at] != 1 && strides[at] != stride) return false;
    stride *= dims[at];
  }
  return true;
}

PairRegistrar::PairRegistrar(PairKernel kernel) { pair_registry().push_back(std::move(kernel)); }

const PairKernel* pair_kernel(const Pair& pair) {
  for (const PairKernel& kernel : pair_registry())
    if (!kernel.refuses(pair)) return &kernel;
  return nullptr;
}

Problem operands_of(const Pair& pair) {
  Problem problem = pair.second;
  problem.inputs = pair.first.inputs;
  problem.inputs.insert(problem.inputs.end(), pair.second.inputs.begin() + 1, pair.second.inputs.end());
  return problem;
}

std::string signature(const Pair& pair) { return pair_prefix + signature(pair.first) + " | " + signature(pair.second); }

std::string signature(const Problem& problem) {
  std::string text = problem.node->op;
  for (const Operand& operand : problem.inputs) append(text, operand);
  text += " ->";
  for (const Operand& operand : problem.outputs) append(text, operand);
  for (const auto& [name, value] : problem.node->attributes) {
    if (name == rounding) continue;
    text += ' ' + name + '=';
    if (const auto* integer = std::get_if<int64_t>(&value)) text += std::to_string(*integer);
    else if (const auto* real = std::get_if<float>(&value)) text += std::to_string(*real);
    else if (const auto* words = std::get_if<std::string>(&value)) text += *words;
    else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t item : *integers) text += std::to_string(item) + ',';
    else if (const auto* lines = std::get_if<std::vector<std::string>>(&value))
      for (const auto& item : *lines) text += item + ';';
  }
  text += " t" + std::to_string(problem.threads) + (problem.strict ? " strict" : "") + (problem.tf32 ? " tf32" : "") +
          (problem.bf16 ? " bf16" : "");
  return text;
}

bool same_but_threads(const std::string& left, const std::string& right) {
  const auto is_digit = [&](size_t at) { return at < left.size() && left[at] >= '0' && left[at] <= '9'; };
  size_t at = left.rfind(" t");
  while (at != std::string::npos && at > 0 && !is_digit(at + 2)) at = left.rfind(" t", at - 1);
  if (at == std::string::npos || right.compare(0, at + 2, left, 0, at + 2) != 0) return false;
  const auto behind = [&](const std::string& text) {
    const size_t end = text.find_first_not_of("0123456789", at + 2);
    return end == std::string::npos ? std::string() : text.substr(end);
  };
  return behind(left) == behind(right);
}

KernelRegistrar::KernelRegistrar(Kernel kernel) {
  const std::string op = kernel.op;
  registry().emplace(op, std::move(kernel));
}

std::vector<const Kernel*> kernels_for(const std::string& op) {
  std::vector<const Kernel*> kernels;
  const auto add = [&](const std::string& name) {
    const auto [begin, end] = registry().equal_range(name);
    for (auto at = begin; at != end; ++at) kernels.push_back(&at->second);
  };
  add(op);
  if (const ops::Op* found = ops::find(op); found && found->formula) add(any_expression);
  std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel* a, const Kernel* b) { return a->rank > b->rank; });
  kernels.push_back(&reference_kernel());
  return kernels;
}

}  // namespace tenon::backends
