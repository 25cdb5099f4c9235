#include "runtime/program.h"

#include <tenon/error.h>
#include <tenon/limits.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/memory.h"
#include "plan/chains.h"

namespace tenon::runtime {
namespace {

std::shared_ptr<std::byte> allocate(size_t bytes) {
  const auto counted = static_cast<int64_t>(bytes);
  if (!take_memory(counted))
    throw Error(Code::resource, "out of memory for the arena",
                {.why = "it takes " + memory_text(counted) + ", the limit for all tensors is " +
                        memory_text(limits_in_force().memory_bytes)});
  auto* memory =
      static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), std::align_val_t(4096), std::nothrow));
  if (!memory) {
    give_memory_back(counted, current_budget().get());
    throw Error(Code::resource, "out of memory for the arena", {.why = memory_text(counted)});
  }
  return {memory, [counted, budget = current_budget()](std::byte* p) {
            ::operator delete(p, std::align_val_t(4096));
            give_memory_back(counted, budget.get());
          }};
}

}  // namespace

Program::Program(const plan::Plan& plan, const Shapes& shapes, Team& team, std::shared_ptr<Arena> arena)
    : team_(team), graph_(plan::concretise(plan.graph, shapes)), static_(plan::is_static(graph_)) {
  const bool gpu = plan.device != "cpu";
  if (static_ && !gpu) bind(plan);
  if (gpu && !static_) parts_ = plan::parts_of(graph_);
  ir::Graph& planned = static_ ? graph_ : parts_.head;
  if (gpu) {
    const cuda::Properties& device = cuda::Device::get(cuda::index_of(plan.device)).properties();
    planned = plan::device_graph(std::move(planned), plan, &device);
  }
  if (gpu && (static_ || !planned.nodes.empty()))
    device_ = std::make_unique<DeviceProgram>(plan, planned, team, DeviceProgram::Branches::as_recorded,
                                              std::move(arena));
  if (!static_) dynamic_ = std::make_unique<DynamicProgram>(device_ ? parts_.tail : graph_, plan, team);
}

void Program::bind(const plan::Plan& plan) {
  layout_ = plan::lay_out(graph_);
  slots_.resize(graph_.inputs.size());
  arena_ = allocate(static_cast<size_t>(layout_.arena_bytes));
  // By the second node of a pair that runs as one step: the first.
  std::map<ir::NodeId, std::pair<ir::NodeId, const backends::PairKernel*>> pairs;
  std::set<ir::NodeId> joined;
  const std::map<int, size_t> alone = outputs_alone();
  for (const auto& [storage, output] : alone) output_storages_[output];
  const auto problem_of = [&](ir::NodeId id) {
    return plan::problem_of(graph_, id, layout_, team_.threads(), plan);
  };
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) {
    const ir::NodeId second = plan::second_of_pair(graph_, id);
    if (second == ir::no_node || !layout_.runs[id] || !layout_.runs[second]) continue;
    const backends::PairKernel* kernel = plan::choose(backends::Pair{problem_of(id), problem_of(second)}, plan.records);
    if (!kernel) continue;
    pairs[second] = {id, kernel};
    joined.insert(id);
  }
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id) {
    if (!layout_.runs[id] || joined.count(id)) continue;
    const auto pair = pairs.find(id);
    const backends::Problem problem = problem_of(id);
    BoundStep step{nullptr, {}, {}, {id}, {}};
    if (pair != pairs.end()) {
      step.step = pair->second.second->make({problem_of(pair->second.first), problem});
      step.kernel = pair->second.second->name;
      step.nodes = {pair->second.first, id};
    } else {
      const backends::Kernel& kernel = plan::choose(problem, plan.records);
      step.step = kernel.make(problem);
      step.kernel = kernel.name;
    }
    const auto address = [&](ir::ValueId value, size_t operand, bool is_input) -> std::byte* {
      if (value == ir::no_value) return nullptr;
      if (const Tensor* constant = graph_.constant(value)) return const_cast<std::byte*>(constant->data<std::byte>());
      const plan::Place& place = layout_.places[value];
      const int64_t bytes = place.offset * static_cast<int64_t>(size_of(graph_.value(value).dtype));
      if (place.storage >= 0) {
        if (const auto output = alone.find(place.storage); output != alone.end())
          output_storages_[output->second].slots.push_back({steps_.size(), operand, is_input, bytes});
        return arena_.get() + layout_.storages[place.storage].offset + bytes;
      }
      TENON_CHECK(is_input, graph_.value(value).name);
      const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), value);
      TENON_CHECK(input != graph_.inputs.end(), graph_.value(value).name);
      slots_[input - graph_.inputs.begin()].push_back({steps_.size(), operand, bytes});
      return nullptr;
    };
    const ir::Node& node = graph_.node(id);
    for (ir::NodeId part : step.nodes)
      for (size_t at = part == id && step.nodes.size() > 1 ? 1 : 0; at < graph_.node(part).inputs.size(); ++at)
        step.inputs.push_back(address(graph_.node(part).inputs[at], step.inputs.size(), true));
    for (size_t at = 0; at < node.outputs.size(); ++at) step.outputs.push_back(address(node.outputs[at], at, false));
    workspace_bytes_ = std::max(workspace_bytes_, step.step->workspace_bytes());
    packed_bytes_ += step.step->packed_bytes();
    steps_.push_back(std::move(step));
  }
  if (workspace_bytes_ > 0) {
    // The workspace lies behind the arena, in the same allocation.
    const size_t begin = (static_cast<size_t>(layout_.arena_bytes) + 4095) / 4096 * 4096;
    const std::byte* old = arena_.get();
    arena_ = allocate(begin + workspace_bytes_);
    workspace_ = arena_.get() + begin;
    const auto move = [&](std::byte*& pointer) {
      if (pointer >= old && pointer < old + std::max<int64_t>(layout_.arena_bytes, 1))
        pointer = arena_.get() + (pointer - old);
    };
    for (BoundStep& step : steps_) {
      for (std::byte*& pointer : step.inputs) move(pointer);
      for (std::byte*& pointer : step.outputs) move(pointer);
    }
  }
}

bool Program::matches(std::span<const Tensor> inputs) const {
  for (size_t at = 0; at < inputs.size(); ++at) {
    const ir::Value& value = graph_.value(graph_.inputs[at]);
    if (!value.shape) return false;
    if (value.shape->size() != inputs[at].dims().rank()) return false;
    for (size_t axis = 0; axis < value.shape->size(); ++axis)
      if (!(*value.shape)[axis].is_constant() || (*value.shape)[axis].value() != inputs[at].dims()[axis]) return false;
  }
  return true;
}

void Program::point_at(std::span<const Tensor> inputs) {
  for (size_t at = 0; at < slots_.size(); ++at)
    for (const InputSlot& slot : slots_[at])
      steps_[slot.step].inputs[slot.operand] = const_cast<std::byte*>(inputs[at].data<std::byte>()) + slot.bytes;
}

void Program::work(void* context, int id) {
  auto& self = *static_cast<Program*>(context);
  const Worker worker = self.team_.worker(id, self.workspace_);
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
    if (self.watcher_) {
      if (!self.failed_.load(std::memory_order_relaxed)) try {
          self.watcher_->after(step.nodes.back(), worker);
        } catch (...) {
          self.fail(std::current_exception());
        }
      worker.sync();
    }
    if (self.times_ && id == 0)
      (*self.times_)[at] += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
}

void Program::fail(std::exception_ptr fault) {
  if (!failed_.exchange(true)) fault_ = std::move(fault);
}

void Program::run_team() {
  team_.run(&Program::work, this);
  if (!failed_.exchange(false)) return;
  times_ = nullptr;
  watcher_ = nullptr;
  std::rethrow_exception(std::exchange(fault_, nullptr));
}

void Program::collect(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  for (size_t at = 0; at < outputs.size(); ++at) {
    const ir::ValueId id = graph_.outputs[at];
    const plan::Place& place = layout_.places[id];
    if (const Tensor* constant = graph_.constant(id)) {
      outputs[at] = *constant;
    } else if (place.storage >= 0) {
      const DType dtype = graph_.value(id).dtype;
      if (const auto own = output_storages_.find(at); own != output_storages_.end() && own->second.memory) {
        outputs[at] = Tensor::view(dtype, place.dims, own->second.memory);
        continue;
      }
      outputs[at] = Tensor::view(
          dtype, place.dims,
          arena_.get() + layout_.storages[place.storage].offset + place.offset * static_cast<int64_t>(size_of(dtype)));
    } else {
      outputs[at] = inputs[std::find(graph_.inputs.begin(), graph_.inputs.end(), id) - graph_.inputs.begin()];
    }
  }
}

std::vector<Tensor> Program::with_head(std::span<const Tensor> inputs) {
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  if (!device_) return all;
  all.resize(inputs.size() + parts_.head.outputs.size());
  device_->run(inputs, std::span(all).subspan(inputs.size()));
  return all;
}

void Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) { run(inputs, outputs, {}); }

void Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  if (dynamic_) {
    const std::vector<Tensor> results = dynamic_->run(with_head(inputs));
    std::copy(results.begin(), results.end(), outputs.begin());
  } else if (device_) {
    device_->run(inputs, outputs, targets);
  } else {
    aim_at(targets);
    point_at(inputs);
    run_team();
    collect(inputs, outputs);
  }
  for (size_t at = 0; at < targets.size(); ++at)
    if (targets[at]) fill(outputs[at], targets[at]);
}

void Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, Watcher& watcher) {
  TENON_CHECK(static_, "a watched program has planned memory");
  watcher_ = &watcher;
  run(inputs, outputs);
  watcher_ = nullptr;
}

std::byte* Program::address(ir::ValueId value) const {
  const plan::Place& place = layout_.places[value];
  TENON_CHECK(place.storage >= 0, graph_.value(value).name);
  return arena_.get() + layout_.storages[place.storage].offset +
         place.offset * static_cast<int64_t>(size_of(graph_.value(value).dtype));
}

std::vector<LayerTime> Program::profile(std::span<const Tensor> inputs, int iterations) {
  std::vector<LayerTime> layers;
  if (device_) layers = device_->profile(inputs, iterations);
  if (dynamic_) {
    const std::vector<LayerTime> rest = dynamic_->profile(with_head(inputs), iterations);
    layers.insert(layers.end(), rest.begin(), rest.end());
  }
  if (device_ || dynamic_) return layers;
  aim_at({});
  point_at(inputs);
  std::vector<double> times(steps_.size(), 0);
  times_ = &times;
  for (int iteration = 0; iteration < iterations; ++iteration) run_team();
  times_ = nullptr;
  for (size_t at = 0; at < steps_.size(); ++at) {
    const ir::Node& node = graph_.node(steps_[at].nodes.front());
    std::vector<std::string> origins;
    for (ir::NodeId part : steps_[at].nodes)
      origins.insert(origins.end(), graph_.node(part).origins.begin(), graph_.node(part).origins.end());
    layers.push_back({node.op + " " + node.label(), origins, steps_[at].kernel, times[at] / std::max(1, iterations)});
  }
  return layers;
}

Tensor Program::input(size_t at) {
  if (device_) return device_->input(at);
  Tensor& own = own_inputs_[at];
  if (!own) {
    const ir::Value& value = graph_.value(graph_.inputs[at]);
    Dims dims;
    for (const ir::Dim& dim : *value.shape) {
      if (!dim.is_constant()) throw Error(Code::usage, "input \"" + value.name + "\" has no fixed sizes");
      dims.push_back(dim.value());
    }
    own = Tensor(value.dtype, dims);
  }
  return own;
}

std::vector<double> Program::device_times(int iterations) {
  return device() ? device_->time(iterations) : std::vector<double>();
}

MemoryUse Program::memory() const {
  if (device_) return device_->memory();
  MemoryUse use;
  use.arena_bytes = layout_.arena_bytes;
  use.arena_lower_bound = layout_.lower_bound;
  use.weights_bytes = static_cast<int64_t>(packed_bytes_);
  for (const ir::Value& value : graph_.values)
    if (value.is_constant() && size_of(value.dtype)) use.weights_bytes += static_cast<int64_t>(value.constant.bytes());
  return use;
}

}  // namespace tenon::runtime
