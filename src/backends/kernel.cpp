// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"

#include <algorithm>
#include <map>

#include "ops/op.h"

namespace tenon::backends {
namespace {

std::multimap<std::string, Kernel>& registry() {
  static std::multimap<std::string, Kernel> kernels;
  return kernels;
}

}  // namespace

KernelRegistrar::KernelRegistrar(Kernel kernel, const char* file) {
  kernel.file = file;
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
  if (const ops::OpDef* found = ops::find(op); found && found->formula) add(any_expression);
  std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel* a, const Kernel* b) { return a->rank > b->rank; });
  kernels.push_back(&reference_kernel());
  return kernels;
}

Reason refusal(const Kernel& kernel, const Problem& problem) {
  const auto is_empty = [](const Operand& operand) { return !operand || operand.dims.elements() == 0; };
  if (&kernel != &reference_kernel() && std::all_of(problem.outputs.begin(), problem.outputs.end(), is_empty))
    return Reason::empty;
  return kernel.refuses(problem);
}

const Kernel& kernel_for(const Problem& problem, const std::string& name) {
  const auto [begin, end] = registry().equal_range(problem.node->op);
  for (auto at = begin; at != end; ++at)
    if (at->second.name == name && !refusal(at->second, problem)) return at->second;
  const std::vector<const Kernel*> kernels = kernels_for(problem.node->op);
  for (const Kernel* kernel : kernels)
    if (kernel->name == name && !refusal(*kernel, problem)) return *kernel;
  for (const Kernel* kernel : kernels)
    if (!refusal(*kernel, problem)) return *kernel;
  return reference_kernel();
}

}  // namespace tenon::backends
