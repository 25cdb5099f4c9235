// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/executable.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "backends/cpu/control_flow.h"
#include "backends/host_arena.h"
#include "base/memory.h"

namespace tenon::cpu {
namespace {

using backends::Place;
using Clock = std::chrono::steady_clock;

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

}  // namespace

std::unique_ptr<backends::Executable> HostCompiled::executable(ThreadPool& threads,
                                                               std::shared_ptr<backends::Arena> arena) const {
  return std::make_unique<HostExecutable>(std::static_pointer_cast<const HostCompiled>(shared_from_this()), threads,
                                          std::move(arena));
}

HostExecutable::HostExecutable(std::shared_ptr<const HostCompiled> compiled, ThreadPool& thread_pool,
                               std::shared_ptr<backends::Arena> arena)
    : compiled_(std::move(compiled)), thread_pool_(thread_pool), bound_(compiled_->kernels()) {
  const size_t bytes = bound_.bytes();
  if (auto* const common = dynamic_cast<backends::HostArena*>(arena.get())) {
    if (!common->memory || common->bytes < bytes) {
      // What has grown once, as a cache of attention does, will grow again.
      const size_t spare = common->memory && bytes < most_spared * 4 ? bytes / 4 : 0;
      common->memory = allocate(bytes + spare);
      common->bytes = bytes + spare;
    }
    memory_ = common->memory;
  } else {
    memory_ = allocate(bytes);
  }
  bound_.place_in(memory_.get());
  bool alone = true;
  for (size_t at = 0; at < bound_.steps(); ++at) alone = alone && bound_.step(at).alone();
  if (alone) expected_ = 0;
}

void HostExecutable::point_at(std::span<const Tensor> inputs) {
  for (size_t at = 0; at < inputs.size(); ++at) bound_.aim_input(at, inputs[at].data<std::byte>());
}

void HostExecutable::aim_at(std::span<const Tensor> targets) {
  for (size_t at = 0; at < graph().outputs.size(); ++at)
    if (bound_.can_aim(at))
      bound_.aim_output(
          at, !targets.empty() && targets[at] ? const_cast<std::byte*>(targets[at].data<std::byte>()) : nullptr);
}

void HostExecutable::work(void* context, const Worker& worker) {
  auto& self = *static_cast<HostExecutable*>(context);
  const size_t steps = self.bound_.steps();
  size_t at = self.begin_;
  for (bool parts = false; at < steps && !parts; ++at) {
    const auto begin = self.times_ ? Clock::now() : Clock::time_point();
    if (!self.faults_.any()) try {
        self.bound_.run(at, worker);
      } catch (...) {
        self.faults_.note();
      }
    if (self.observer_) {
      worker.sync();
      if (!self.faults_.any()) try {
          self.observer_->after(self.schedule().steps[at].node, worker);
        } catch (...) {
          self.faults_.note();
        }
    }
    const bool last = at + 1 == steps;
    if (last && self.times_) worker.sync();
    // What the first worker does alone, one step behind the other, the others await once.
    if (!last && !(self.bound_.step(at).alone() && self.bound_.step(at + 1).alone() && !self.observer_))
      parts = self.thread_pool_.parts(worker);
    if (self.times_ && worker.id == 0)
      (*self.times_)[at] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  if (worker.id == 0) self.end_ = at;
}

void HostExecutable::run_pool() {
  const auto begin = Clock::now();
  // Whoever comes later joins at a step: nobody is waited for again.
  for (begin_ = 0; begin_ < bound_.steps(); begin_ = end_)
    thread_pool_.run(&HostExecutable::work, this, bound_.workspace(), begin_ == 0 ? expected_ : 1);
  // One long run, for whatever reason, does not make those behind it long.
  const int64_t took = std::chrono::nanoseconds(Clock::now() - begin).count();
  expected_ += (std::min(took, 4 * expected_) - expected_) / 4;
  if (!faults_.any()) return;
  times_ = nullptr;
  observer_ = nullptr;
  faults_.rethrow();
}

void HostExecutable::collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  for (size_t at = 0; at < outputs.size(); ++at) {
    const ir::ValueId id = graph().outputs[at];
    const Place& place = layout().places[id];
    if (const Tensor* constant = schedule().constant(id)) outputs[at] = *constant;
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

std::byte* HostExecutable::address(ir::ValueId value) const { return bound_.address(value); }

std::vector<LayerTime> HostExecutable::profile(std::span<const Tensor> inputs, int iterations) {
  aim_at({});
  point_at(inputs);
  std::vector<double> times(bound_.steps(), 0);
  const auto control = [&](size_t at) { return dynamic_cast<const ControlStep*>(&bound_.step(at)); };
  for (size_t at = 0; at < times.size(); ++at)
    if (const ControlStep* step = control(at)) step->begin_profile();
  times_ = &times;
  for (int iteration = 0; iteration < iterations; ++iteration) run_pool();
  times_ = nullptr;
  std::vector<LayerTime> layers, bodies;
  for (size_t at = 0; at < times.size(); ++at) {
    const ir::Node& node = graph().node(schedule().steps[at].node);
    layers.push_back({node.op + " " + node.label(), node.origins, compiled_->kernels().tactic(at),
                      times[at] / std::max(1, iterations)});
    const size_t begin = bodies.size();
    if (const ControlStep* step = control(at)) step->add_times(bodies, node.label() + "/", std::max(1, iterations));
    for (size_t inner = begin; inner < bodies.size(); ++inner) layers[at].microseconds -= bodies[inner].microseconds;
    layers[at].microseconds = std::max(0.0, layers[at].microseconds);
  }
  // Behind all steps, so that these stay in their places.
  layers.insert(layers.end(), bodies.begin(), bodies.end());
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
  use.weights_bytes = static_cast<int64_t>(compiled_->kernels().packed_bytes() + compiled_->kernels().plain_bytes());
  return use;
}

}  // namespace tenon::cpu
