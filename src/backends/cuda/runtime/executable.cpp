// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/executable.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/memory.h"
#include "ops/control_flow.h"

namespace tenon::cuda {
namespace {

constexpr int timed_repeats = 20;

}  // namespace

/// A CPU kernel working on the mirror of the arena.
struct DeviceExecutable::HostStep {
  backends::Problem problem;
  std::shared_ptr<const backends::Step> step;
  std::vector<std::byte*> inputs, outputs;
  Tensor workspace;
};

namespace {
/// It may have failed since the kernels were made. Throws before anything else is asked of it.
Device& usable(Device& device) {
  device.use();
  return device;
}
}  // namespace

DeviceExecutable::DeviceExecutable(std::shared_ptr<const DeviceCompiled> compiled, ThreadPool& thread_pool,
                                   std::shared_ptr<backends::Arena> arena)
    : compiled_(std::move(compiled)),
      thread_pool_(thread_pool),
      device_(usable(compiled_->device())),
      arena_(std::dynamic_pointer_cast<DeviceArena>(std::move(arena))) {
  breadcrumbs_ = PinnedBuffer((most_streams + 1) * sizeof(uint32_t));
  std::memset(breadcrumbs_.data(), 0, (most_streams + 1) * sizeof(uint32_t));
  compiled_->explain_memory([&] {
    watched([&] {
      reserve_operands();
      bind();
      segments_ = record();
    });
  });
}

DeviceExecutable::~DeviceExecutable() = default;

size_t DeviceExecutable::bytes_of(ir::ValueId value) const {
  return static_cast<size_t>(layout().places[value].dims.elements()) * size_of(graph().value(value).dtype);
}

Address DeviceExecutable::address_of(ir::ValueId value) const {
  const backends::Place& place = layout().places[value];
  const auto bytes = static_cast<uint64_t>(place.offset) * size_of(graph().value(value).dtype);
  if (place.storage >= 0) {
    const auto output = aimable_.find(place.storage);
    if (output != aimable_.end() && is_aimed_output(output->second)) return aim_->outputs[output->second] + bytes;
    return arena_->memory.address() + static_cast<uint64_t>(layout().storages[place.storage].offset) + bytes;
  }
  for (size_t at = 0; at < graph().inputs.size(); ++at)
    if (graph().inputs[at] == value && is_aimed_input(at)) return aim_->inputs[at] + bytes;
  const auto input = inputs_.find(value);
  TENON_CHECK(input != inputs_.end(), graph().value(value).name);
  return input->second.address() + bytes;
}

void DeviceExecutable::reserve_operands() {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(layout().arena_bytes, 1));
  const int index = device_.properties().index;
  if (!arena_ || arena_->device != index || arena_->memory.bytes() < bytes)
    arena_ = std::make_shared<DeviceArena>(index, bytes);
  for (const ir::ValueId input : graph().inputs) {
    const size_t bytes = std::max<size_t>(bytes_of(input), 1);
    inputs_[input] = Buffer(bytes, "an input");
    staging_[input] = PinnedBuffer(bytes);
  }
  for (const ir::ValueId output : graph().outputs)
    if (!graph().value(output).is_constant() && !staging_.count(output))
      staging_[output] = PinnedBuffer(std::max<size_t>(bytes_of(output), 1));
  aimable_ = storages_of_one_output(schedule());
}

void DeviceExecutable::bind() {
  size_t workspace = 0;
  for (size_t at = 0; at < schedule().steps.size(); ++at) {
    BoundStep step{
        schedule().steps[at].node, compiled_->kernel(at), compiled_->step(at), nullptr, nullptr, nullptr, {}, {}};
    if (step.step) {
      add_operands(step);
      workspace = std::max(workspace, step.step->workspace_bytes());
    } else if (!compiled_->bodies(at).empty()) {
      add_operands(step);
      hops_ = true;
    } else {
      if (!mirror_.data()) mirror_ = PinnedBuffer(static_cast<size_t>(std::max<int64_t>(layout().arena_bytes, 1)));
      step.host = bind_host_step(at);
    }
    steps_.push_back(std::move(step));
  }
  reserve_workspace(workspace);
  size_t copies = 0;
  for (const BoundStep& step : steps_) {
    std::vector<CopyPart> parts;
    if (step.step && copies_of(step, parts)) copies += parts.size();
  }
  if (copies > 1) copies_ = device_.function(Source{"copies.cu", {}, ""}, "copies");
  for (size_t at = 0; at < steps_.size(); ++at)
    if (!compiled_->bodies(at).empty()) add_hop(at);
}

void DeviceExecutable::add_hop(size_t at) {
  BoundStep& step = steps_[at];
  step.hop = make_host_hop(schedule().steps[at].problem, compiled_->bodies(at), step.inputs, step.outputs,
                           launch_of(at, clock_.stream()));
}

void DeviceExecutable::add_operands(BoundStep& step) {
  const ir::Node& node = graph().node(step.node);
  for (size_t at = 0; at < node.inputs.size(); ++at) {
    const ir::ValueId value = node.inputs[at];
    const bool is_constant = value != ir::no_value && graph().value(value).is_constant();
    step.inputs.push_back(value == ir::no_value                  ? 0
                          : is_constant && step.step && !step.step->reads(at) ? 0
                          : is_constant                          ? compiled_->constant(value)
                                                                 : address_of(value));
  }
  for (const ir::ValueId value : node.outputs) step.outputs.push_back(value == ir::no_value ? 0 : address_of(value));
}

void DeviceExecutable::reserve_workspace(size_t bytes) {
  if (workspaces_.empty() || workspaces_.back().bytes() < bytes)
    workspaces_.push_back(Buffer(bytes, "the workspace of kernels"));
}

std::unique_ptr<DeviceExecutable::HostStep> DeviceExecutable::bind_host_step(size_t at) const {
  const backends::ScheduledStep& scheduled = schedule().steps[at];
  const ir::NodeId id = scheduled.node;
  auto host = std::make_unique<HostStep>();
  host->problem = scheduled.host->problem;
  host->step = compiled_->host_step(at);
  const auto pointer = [&](ir::ValueId value) -> std::byte* {
    if (value == ir::no_value) return nullptr;
    if (const Tensor* tensor = graph().constant(value)) return const_cast<std::byte*>(tensor->data<std::byte>());
    const backends::Place& place = layout().places[value];
    if (place.storage >= 0) return mirror_.data() + (address_of(value) - arena_->memory.address());
    return staging_.at(value).data() + place.offset * static_cast<int64_t>(size_of(graph().value(value).dtype));
  };
  for (ir::ValueId value : graph().node(id).inputs) host->inputs.push_back(pointer(value));
  for (ir::ValueId value : graph().node(id).outputs) host->outputs.push_back(pointer(value));
  host->workspace = Tensor(DType::u8, {static_cast<int64_t>(host->step->workspace_bytes())});
  return host;
}

Launch DeviceExecutable::launch_of(size_t step, Stream stream, size_t stream_at) const {
  const auto place = [&](size_t at) {
    return reinterpret_cast<Address>(breadcrumbs_.data() + at * sizeof(uint32_t));
  };
  return {stream, nullptr, nullptr, 0, {place(stream_at), static_cast<uint32_t>(step + 1)}, place(most_streams)};
}

void DeviceExecutable::enqueue(const BoundStep& step, Stream stream, size_t stream_at) const {
  Launch launch = launch_of(static_cast<size_t>(&step - steps_.data()), stream, stream_at);
  launch.inputs = step.inputs.data(), launch.outputs = step.outputs.data();
  launch.workspace = workspaces_.back().address();
  step.step->enqueue(launch);
}

void DeviceExecutable::heed_alarm() {
  auto& alarm = reinterpret_cast<uint32_t*>(breadcrumbs_.data())[most_streams];
  if (const uint32_t step = std::exchange(alarm, 0)) ops::Rounds::refuse(graph().node(steps_[step - 1].node));
}

void DeviceExecutable::run_host(BoundStep& step) {
  const Driver& d = driver();
  HostStep& host = *step.host;
  const ir::Node& node = graph().node(step.node);
  const auto in_arena = [&](ir::ValueId value) { return value != ir::no_value && layout().places[value].storage >= 0; };
  const auto fetch = [&](ir::ValueId value, const backends::Operand& operand, std::byte* to) {
    check(d.MemcpyDtoHAsync(to, address_of(value), backends::extent(operand), clock_.stream()), "cuMemcpyDtoH");
  };
  for (size_t at = 0; at < node.inputs.size(); ++at)
    if (in_arena(node.inputs[at])) fetch(node.inputs[at], host.problem.inputs[at], host.inputs[at]);
  // What lies between the rows of an output that is a view goes back with it.
  for (size_t at = 0; at < node.outputs.size(); ++at)
    if (in_arena(node.outputs[at]) && !host.problem.outputs[at].dense())
      fetch(node.outputs[at], host.problem.outputs[at], host.outputs[at]);
  clock_.synchronise();
  struct Context {
    HostStep& host;
    std::exception_ptr fault;
  } context{host, nullptr};
  thread_pool_.run(
      [](void* pointer, const Worker& worker) {
        auto& [host, fault] = *static_cast<Context*>(pointer);
        try {
          host.step->run(host.inputs.data(), host.outputs.data(), worker);
        } catch (...) {
          if (worker.id == 0) fault = std::current_exception();
        }
      },
      &context, host.workspace.data<std::byte>());
  if (context.fault) std::rethrow_exception(context.fault);
  for (size_t at = 0; at < node.outputs.size(); ++at)
    if (in_arena(node.outputs[at]))
      check(d.MemcpyHtoDAsync(address_of(node.outputs[at]), host.outputs[at],
                              backends::extent(host.problem.outputs[at]), clock_.stream()),
            "cuMemcpyHtoD");
}

void DeviceExecutable::run_segments() {
  std::memset(breadcrumbs_.data(), 0, most_streams * sizeof(uint32_t));
  if (aim_) return aim_->recording.replay(clock_.stream());
  for (Segment& segment : segments_) {
    if (segment.recording) segment.recording.replay(clock_.stream());
    else run_by_host(steps_[segment.first]);
  }
}

Tensor DeviceExecutable::input(size_t at) {
  const ir::ValueId id = graph().inputs[at];
  return Tensor::view(graph().value(id).dtype, layout().places[id].dims, staging_.at(id).data());
}


void DeviceExecutable::enqueue(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream) {
  for (const Segment& segment : segments_)
    if (!segment.recording)
      throw Error(Code::unsupported, "a node of this engine runs on the CPU",
                  {.where = "node " + graph().node(steps_[segment.first].node).label(),
                   .hint = "use run(), which waits for it"});
  device_.use();
  heed_alarm();
  watched([&] { enqueue_all(inputs, outputs, static_cast<Stream>(stream)); });
}

std::vector<double> DeviceExecutable::time(int iterations) {
  device_.use();
  return watched([&] { return time_segments(iterations); });
}

std::vector<double> DeviceExecutable::time_segments(int iterations) {
  const std::lock_guard lock(arena_->running);
  std::vector<double> times;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    double total = 0;
    for (Segment& segment : segments_) {
      if (segment.recording) {
        total += clock_.time(segment.recording) * 1e-3;
      } else {
        const auto begin = std::chrono::steady_clock::now();
        run_by_host(steps_[segment.first]);
        clock_.synchronise();
        total += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      }
    }
    times.push_back(total);
  }
  return times;
}

std::vector<LayerTime> DeviceExecutable::profile(std::span<const Tensor> inputs, int iterations) {
  return watched([&] { return time_layers(inputs, iterations); });
}

std::vector<LayerTime> DeviceExecutable::time_layers(std::span<const Tensor> inputs, int iterations) {
  const std::lock_guard lock(arena_->running);
  upload(inputs);
  run_segments();
  clock_.synchronise();
  std::vector<LayerTime> layers;
  for (BoundStep& step : steps_) {
    std::vector<double> times;
    if (step.step) {
      const Recording recording(clock_.stream(), [&] {
        for (int at = 0; at < timed_repeats; ++at) enqueue(step, clock_.stream());
      });
      clock_.time(recording);
      for (int at = 0; at < iterations; ++at) times.push_back(clock_.time(recording) / timed_repeats);
    } else {
      for (int at = 0; at < iterations; ++at) {
        const auto begin = std::chrono::steady_clock::now();
        run_by_host(step);
        clock_.synchronise();
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
    }
    std::sort(times.begin(), times.end());
    const ir::Node& node = graph().node(step.node);
    layers.push_back(
        {node.op + " " + node.label(), node.origins, step.kernel, times.empty() ? 0 : times[times.size() / 2]});
  }
  return layers;
}

MemoryUse DeviceExecutable::memory() const {
  MemoryUse use;
  use.arena_bytes = layout().arena_bytes;
  use.arena_lower_bound = layout().lower_bound;
  use.weights_bytes = static_cast<int64_t>(compiled_->weights_bytes());
  for (const auto& [id, buffer] : inputs_) use.input_bytes += static_cast<int64_t>(buffer.bytes());
  for (const Buffer& buffer : workspaces_) use.workspace_bytes += static_cast<int64_t>(buffer.bytes());
  for (const BoundStep& step : steps_)
    if (step.hop) use.workspace_bytes += static_cast<int64_t>(step.hop->bytes());
  use.device_bytes =
      static_cast<int64_t>(arena_->memory.bytes()) + use.weights_bytes + use.input_bytes + use.workspace_bytes;
  return use;
}

}  // namespace tenon::cuda
