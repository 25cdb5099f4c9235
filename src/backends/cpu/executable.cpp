// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/executable.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "backends/host_arena.h"
#include "base/check.h"
#include "base/memory.h"

namespace tenon::cpu {
namespace {

using backends::Place;
using backends::ScheduledStep;

constexpr size_t page = 4096;
constexpr size_t most_spared = size_t{16} << 20;  // bytes

std::shared_ptr<std::byte> allocate(size_t bytes) {
  const auto counted = static_cast<int64_t>(bytes);
  if (!take_memory(counted))
    throw Error(Code::resource, "out of memory for the arena",
                {.why = "it takes " + memory_text(counted) + ", the limit for all tensors is " +
                        memory_text(limits_in_force().memory_bytes)});
  auto* memory =
      static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), std::align_val_t(page), std::nothrow));
  if (!memory) {
    give_memory_back(counted, current_budget().get());
    throw Error(Code::resource, "out of memory for the arena", {.why = memory_text(counted)});
  }
  return {memory, [counted, budget = current_budget()](std::byte* p) {
            ::operator delete(p, std::align_val_t(page));
            give_memory_back(counted, budget.get());
          }};
}

/// `tactic`: what runs it, the step's own where that takes it.
std::unique_ptr<backends::Step> make_step(const ScheduledStep& scheduled, std::string* tactic = nullptr) {
  const backends::Problem& problem = scheduled.problems[0];
  if (scheduled.nodes.size() == 1) {
    const backends::Kernel& kernel = backends::kernel_for(problem, scheduled.tactic);
    if (tactic && *tactic != kernel.name) *tactic = kernel.name;
    return kernel.make(problem);
  }
  const backends::Pair pair{problem, scheduled.problems[1]};
  const backends::PairKernel* kernel = backends::pair_kernel(pair);
  TENON_CHECK(kernel && kernel->name == scheduled.tactic, "no kernel runs the pair as one step: " + scheduled.tactic);
  return kernel->make(pair);
}

}  // namespace

HostCompiled::HostCompiled(backends::Schedule schedule) : Compiled(std::move(schedule)) {
  for (ScheduledStep& scheduled : schedule_.steps) {
    for (backends::Problem& problem : scheduled.problems) problem.weights = schedule_.weights.get();
    steps_.push_back(make_step(scheduled, &scheduled.tactic));
    packed_bytes_ += steps_.back()->packed_bytes();
  }
}

std::unique_ptr<backends::Executable> HostCompiled::executable(ThreadPool& threads,
                                                               std::shared_ptr<backends::Arena> arena) const {
  return std::make_unique<HostExecutable>(std::static_pointer_cast<const HostCompiled>(shared_from_this()), threads,
                                          std::move(arena));
}

std::shared_ptr<const backends::Step> HostCompiled::step(size_t at) const {
  return steps_[at]->shared() ? steps_[at] : make_step(schedule_.steps[at]);
}

HostExecutable::HostExecutable(std::shared_ptr<const HostCompiled> compiled, ThreadPool& thread_pool,
                               std::shared_ptr<backends::Arena> arena)
    : compiled_(std::move(compiled)), thread_pool_(thread_pool), slots_(graph().inputs.size()) {
  for (size_t at = 0; at < schedule().steps.size(); ++at) steps_.push_back({compiled_->step(at), {}, {}});
  // The workspace lies behind the arena, in the same allocation.
  size_t workspace = 0;
  for (const BoundStep& step : steps_) workspace = std::max(workspace, step.step->workspace_bytes());
  const auto arena_bytes = static_cast<size_t>(layout().arena_bytes);
  const size_t begin = workspace == 0 ? arena_bytes : (arena_bytes + page - 1) / page * page;
  if (auto* const common = dynamic_cast<backends::HostArena*>(arena.get())) {
    if (!common->memory || common->bytes < begin + workspace) {
      // What has grown once, as a cache of attention does, will grow again.
      const size_t spare = common->memory && begin + workspace < most_spared * 4 ? (begin + workspace) / 4 : 0;
      common->memory = allocate(begin + workspace + spare);
      common->bytes = begin + workspace + spare;
    }
    arena_ = common->memory;
  } else {
    arena_ = allocate(begin + workspace);
  }
  if (workspace > 0) workspace_ = arena_.get() + begin;
  find_outputs();
  for (size_t at = 0; at < steps_.size(); ++at) add_operands(at);
}

std::byte* HostExecutable::place(ir::ValueId value, size_t step, size_t operand, bool is_input) {
  if (value == ir::no_value) return nullptr;
  if (const Tensor* constant = schedule().constant(value)) return const_cast<std::byte*>(constant->data<std::byte>());
  const Place& place = layout().places[value];
  const int64_t bytes = place.offset * static_cast<int64_t>(size_of(graph().value(value).dtype));
  if (place.storage >= 0) {
    if (const auto output = alone_.find(place.storage); output != alone_.end())
      output_storages_[output->second].slots.push_back({step, operand, is_input, bytes});
    return address(value);
  }
  const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), value);
  TENON_CHECK(input != graph().inputs.end(), graph().value(value).name);
  slots_[input - graph().inputs.begin()].push_back({step, operand, bytes});
  return nullptr;
}

void HostExecutable::add_operands(size_t at) {
  BoundStep& step = steps_[at];
  const std::vector<ir::NodeId>& nodes = schedule().steps[at].nodes;
  for (size_t part = 0; part < nodes.size(); ++part) {
    const std::vector<ir::ValueId>& inputs = graph().node(nodes[part]).inputs;
    // The first input of the second of two is what the first makes, and stays inside.
    for (size_t input = part > 0 ? 1 : 0; input < inputs.size(); ++input)
      step.inputs.push_back(place(inputs[input], at, step.inputs.size(), true));
  }
  for (const ir::ValueId output : graph().node(nodes.back()).outputs)
    step.outputs.push_back(place(output, at, step.outputs.size(), false));
}

void HostExecutable::point_at(std::span<const Tensor> inputs) {
  for (size_t at = 0; at < slots_.size(); ++at)
    for (const InputSlot& slot : slots_[at])
      steps_[slot.step].inputs[slot.operand] = const_cast<std::byte*>(inputs[at].data<std::byte>()) + slot.bytes;
}

void HostExecutable::work(void* context, int id) {
  auto& self = *static_cast<HostExecutable*>(context);
  const Worker worker = self.thread_pool_.worker(id, self.workspace_);
  using Clock = std::chrono::steady_clock;
  for (size_t at = 0; at < self.steps_.size(); ++at) {
    BoundStep& step = self.steps_[at];
    const auto begin = self.times_ ? Clock::now() : Clock::time_point();
    // A step that throws must not keep the others waiting at the barrier: the rest is skipped and run() throws.
    if (!self.failed_.load(std::memory_order_relaxed)) try {
        step.step->run(step.inputs.data(), step.outputs.data(), worker);
      } catch (...) {
        self.fail(std::current_exception());
      }
    worker.sync();
    if (self.observer_) {
      if (!self.failed_.load(std::memory_order_relaxed)) try {
          self.observer_->after(self.schedule().steps[at].nodes.back(), worker);
        } catch (...) {
          self.fail(std::current_exception());
        }
      worker.sync();
    }
    if (self.times_ && id == 0)
      (*self.times_)[at] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
}

void HostExecutable::fail(std::exception_ptr fault) {
  if (!failed_.exchange(true)) fault_ = std::move(fault);
}

void HostExecutable::run_pool() {
  thread_pool_.run(&HostExecutable::work, this);
  if (!failed_.exchange(false)) return;
  times_ = nullptr;
  observer_ = nullptr;
  std::rethrow_exception(std::exchange(fault_, nullptr));
}

void HostExecutable::collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  for (size_t at = 0; at < outputs.size(); ++at) {
    const ir::ValueId id = graph().outputs[at];
    const Place& place = layout().places[id];
    if (const Tensor* constant = schedule().constant(id)) outputs[at] = *constant;
    else if (const auto own = output_storages_.find(at); own != output_storages_.end() && own->second.memory)
      outputs[at] = Tensor::view(graph().value(id).dtype, place.dims, own->second.memory);
    else if (place.storage >= 0) outputs[at] = Tensor::view(graph().value(id).dtype, place.dims, address(id));
    else outputs[at] = inputs[std::find(graph().inputs.begin(), graph().inputs.end(), id) - graph().inputs.begin()];
  }
}

void HostExecutable::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  aim_at(targets);
  point_at(inputs);
  run_pool();
  collect(inputs, outputs);
  for (size_t at = 0; at < targets.size(); ++at)
    if (targets[at]) backends::fill(outputs[at], targets[at]);
}

void HostExecutable::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, backends::Observer& observer) {
  observer_ = &observer;
  run(inputs, outputs, {});
  observer_ = nullptr;
}

std::byte* HostExecutable::address(ir::ValueId value) const {
  const Place& place = layout().places[value];
  TENON_CHECK(place.storage >= 0, graph().value(value).name);
  return arena_.get() + layout().storages[place.storage].offset +
         place.offset * static_cast<int64_t>(size_of(graph().value(value).dtype));
}

std::vector<LayerTime> HostExecutable::profile(std::span<const Tensor> inputs, int iterations) {
  aim_at({});
  point_at(inputs);
  std::vector<double> times(steps_.size(), 0);
  times_ = &times;
  for (int iteration = 0; iteration < iterations; ++iteration) run_pool();
  times_ = nullptr;
  std::vector<LayerTime> layers;
  for (size_t at = 0; at < steps_.size(); ++at) {
    const std::vector<ir::NodeId>& nodes = schedule().steps[at].nodes;
    std::vector<std::string> origins;
    for (const ir::NodeId part : nodes)
      origins.insert(origins.end(), graph().node(part).origins.begin(), graph().node(part).origins.end());
    const ir::Node& node = graph().node(nodes.front());
    layers.push_back(
        {node.op + " " + node.label(), origins, schedule().steps[at].tactic, times[at] / std::max(1, iterations)});
  }
  return layers;
}

Tensor HostExecutable::input(size_t at) {
  Tensor& own = own_inputs_[at];
  if (!own) {
    const ir::ValueId id = graph().inputs[at];
    own = Tensor(graph().value(id).dtype, layout().places[id].dims);
  }
  return own;
}

MemoryUse HostExecutable::memory() const {
  MemoryUse use;
  use.arena_bytes = layout().arena_bytes;
  use.arena_lower_bound = layout().lower_bound;
  use.weights_bytes = static_cast<int64_t>(compiled_->packed_bytes());
  for (const ir::Value& value : graph().values)
    if (value.is_constant() && size_of(value.dtype)) use.weights_bytes += static_cast<int64_t>(value.constant.bytes());
  return use;
}

}  // namespace tenon::cpu
