// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include "backends/cuda/runtime/executable.h"
#include "backends/kernel.h"
#include "base/memory.h"
#include "base/pages.h"

/// The kernels of a schedule on a GPU: chosen, compiled, their weights packed and uploaded.
namespace tenon::cuda {

DeviceCompiled::DeviceCompiled(backends::Schedule schedule, ThreadPool& thread_pool)
    : Compiled(std::move(schedule)),
      device_(Device::get(schedule_.device.index)),
      weights_(device_.properties().index) {
  explain_memory([&] {
    try {
      make_steps(thread_pool);
    } catch (const Fault& fault) {
      device_.give_up(fault, "before the first kernel of a run began");
    }
  });
}

void DeviceCompiled::explain_memory(const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
    throw Error(error.code(), error.what(), {error.where(), error.why() + "; " + needs(), error.hint()});
  }
}

void DeviceCompiled::make_steps(ThreadPool& thread_pool) {
  std::vector<Problem> problems;  // of their own, as their weights are rounded
  std::vector<Choice> choices;
  std::vector<Source> sources;
  for (const backends::ScheduledStep& step : schedule_.steps) {
    problems.push_back(step.problem);
    choices.push_back(step.host || step.blocks ? Choice()
                                               : choose(step.problem, device_.properties(), step.tactic));
    const std::vector<Source>& needed = choices.back().tactic.sources;
    sources.insert(sources.end(), needed.begin(), needed.end());
  }
  device_.prepare(sources);
  round_weights(problems, thread_pool);
  const Weights::Filling filling(weights_);
  for (size_t at = 0; at < problems.size(); ++at) {
    const backends::ScheduledStep& step = schedule_.steps[at];
    steps_.push_back(choices[at].kernel ? fitting_step(problems[at], choices[at]) : nullptr);
    kernels_.push_back(choices[at].kernel ? choices[at].tactic.name : step.blocks ? step.tactic : "cpu");
    bodies_.emplace_back();
    if (step.blocks && step.tactic != host_hop) {
      steps_.back() = make_with_blocks(step, device_, thread_pool);
    } else if (step.blocks) {
      for (const backends::Schedule& block : *step.blocks)
        bodies_.back().push_back(std::make_unique<Body>(block, device_, thread_pool));
      for (const ir::ValueId input : schedule_.graph.node(step.node).inputs)
        if (schedule_.graph.constant(input)) constant(input);
      continue;
    }
    if (!steps_.back()) {
      const backends::ScheduledStep::OnHost& host = *schedule_.steps[at].host;
      host_steps_[at] = backends::kernel_for(host.problem, host.tactic).make(host.problem);
      continue;
    }
    const std::vector<ir::ValueId>& inputs = schedule_.graph.node(schedule_.steps[at].node).inputs;
    for (size_t input = 0; input < inputs.size(); ++input)
      if (schedule_.graph.constant(inputs[input]) && steps_.back()->reads(input)) constant(inputs[input]);
  }
}

std::unique_ptr<backends::Executable> DeviceCompiled::executable(ThreadPool& threads,
                                                                 std::shared_ptr<backends::Arena> arena) const {
  return std::make_unique<DeviceExecutable>(std::static_pointer_cast<const DeviceCompiled>(shared_from_this()), threads,
                                            std::move(arena));
}

std::shared_ptr<const backends::Step> DeviceCompiled::host_step(size_t at) const {
  const std::shared_ptr<const backends::Step>& step = host_steps_.at(at);
  if (step->shared()) return step;
  const backends::ScheduledStep::OnHost& host = *schedule_.steps[at].host;
  return backends::kernel_for(host.problem, host.tactic).make(host.problem);
}

std::unique_ptr<Step> DeviceCompiled::step_by(size_t at, const std::string& tactic, ThreadPool& thread_pool) const {
  Problem problem = schedule_.steps[at].problem;
  round_weights({&problem, 1}, thread_pool);
  const Choice choice = choose(problem, device_.properties(), tactic);
  return choice.kernel->make(problem, device_, choice.tactic);
}

Address DeviceCompiled::constant(ir::ValueId value) const {
  const std::lock_guard lock(mutex_);
  Buffer& buffer = constants_[value];
  const Tensor& tensor = schedule_.graph.value(value).constant;
  if (!buffer.address() && tensor.bytes() > 0) {
    buffer = Buffer::kept(tensor.bytes());
    buffer.upload(tensor.data(), tensor.bytes());
    release_pages(tensor.data(), tensor.bytes());
  }
  return buffer.address();
}

std::unique_ptr<Step> DeviceCompiled::fitting_step(const backends::Problem& problem, Choice& choice) {
  auto step = choice.kernel->make(problem, device_, choice.tactic);
  if (fits_workspace(*step)) return step;
  const size_t wanted = step->workspace_bytes();
  for (Choice& other : choices(problem, device_.properties())) {
    step.reset();  // first, so that what it kept makes room
    step = other.kernel->make(problem, device_, other.tactic);
    if (!fits_workspace(*step)) continue;
    choice = std::move(other);
    return step;
  }
  throw Error(Code::resource, "no kernel keeps to the limit of workspace",
              {.where = "node " + problem.node->label(),
               .why = choice.tactic.name + " takes " + memory_text(static_cast<int64_t>(wanted)),
               .hint = "raise the limit with --workspace"});
}

std::string DeviceCompiled::needs() const {
  int64_t inputs = 0, weights = 0;
  for (const ir::ValueId input : schedule_.graph.inputs)
    inputs += schedule_.layout.places[input].dims.elements() *
              static_cast<int64_t>(size_of(schedule_.graph.value(input).dtype));
  for (const ir::Value& value : schedule_.graph.values)
    if (value.is_constant() && size_of(value.dtype)) weights += static_cast<int64_t>(value.constant.bytes());
  return "the engine takes " + memory_text(schedule_.layout.arena_bytes + inputs + weights) +
         " at least: " + memory_text(schedule_.layout.arena_bytes) + " of arena, " + memory_text(inputs) +
         " of inputs and " + memory_text(weights) + " of weights";
}

}  // namespace tenon::cuda
