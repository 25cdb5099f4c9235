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

constexpr std::string_view alone_suffix = "/1";

std::string kernel_of(const std::string& tactic) {
  return is_alone(tactic) ? tactic.substr(0, tactic.size() - alone_suffix.size()) : tactic;
}

/// Whether the kernel that a tactic gave is the tactic's own, which asks for one thread of more.
bool runs_alone(const Kernel& kernel, const Problem& problem, const std::string& tactic) {
  return is_alone(tactic) && problem.threads > 1 && kernel.name == kernel_of(tactic);
}

/// A step made for one thread, in a pool of more.
class AloneStep : public Step {
 public:
  explicit AloneStep(std::unique_ptr<Step> inner) : inner_(std::move(inner)) {}
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  size_t packed_bytes() const override { return inner_->packed_bytes(); }
  bool shared() const override { return inner_->shared(); }
  bool alone() const override { return true; }
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    Problem one = problem;
    one.threads = 1;
    auto inner = inner_->resized(one);
    return inner ? std::make_unique<AloneStep>(std::move(inner)) : nullptr;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    if (worker.id == 0)
      inner_->run(inputs, outputs, Worker{0, 1, worker.barrier, worker.thread_pool, worker.workspace});
  }

 private:
  std::unique_ptr<Step> inner_;
};

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
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel* a, const Kernel* b) { return a->priority > b->priority; });
  kernels.push_back(&reference_kernel());
  return kernels;
}

Reason refusal(const Kernel& kernel, const Problem& problem) {
  const auto is_empty = [](const Operand& operand) { return !operand || operand.dims.elements() == 0; };
  if (&kernel != &reference_kernel() && !kernel.finds &&
      std::all_of(problem.outputs.begin(), problem.outputs.end(), is_empty))
    return Reason::empty;
  return kernel.refuses(problem);
}

const Kernel& kernel_for(const Problem& problem, const std::string& tactic) {
  const std::string name = kernel_of(tactic);
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

std::string alone(const std::string& name) { return name + std::string(alone_suffix); }
bool is_alone(const std::string& tactic) { return tactic.ends_with(alone_suffix); }

std::string tactic_for(const Problem& problem, const std::string& tactic) {
  const Kernel& kernel = kernel_for(problem, tactic);
  return runs_alone(kernel, problem, tactic) ? tactic : kernel.name;
}

MadeStep make_step(const Problem& problem, const std::string& tactic, const Kernel* known) {
  const Kernel& kernel = known && !refusal(*known, problem) ? *known : kernel_for(problem, tactic);
  if (!runs_alone(kernel, problem, tactic)) return {kernel.make(problem), kernel.name, &kernel};
  Problem one = problem;
  one.threads = 1;
  return {std::make_unique<AloneStep>(kernel.make(one)), tactic, &kernel};
}

}  // namespace tenon::backends
