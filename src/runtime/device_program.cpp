#include "runtime/device_program.h"

#include <tenon/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/memory.h"

namespace tenon::runtime {
namespace {

constexpr int timed_repeats = 20;

/// Bytes from the first to past the last element.
size_t extent(const backends::Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis)
    last += std::max<int64_t>(0, operand.dims[axis] - 1) * operand.strides[axis];
  return operand.dims.elements() == 0 ? 0 : static_cast<size_t>(last) * size_of(operand.dtype);
}

size_t bytes_of(const ir::Graph& graph, const plan::Layout& layout, ir::ValueId value) {
  return static_cast<size_t>(layout.places[value].dims.elements()) * size_of(graph.value(value).dtype);
}

}  // namespace

/// A CPU kernel working on the mirror of the arena.
struct DeviceProgram::HostStep {
  backends::Problem problem;
  std::unique_ptr<backends::Step> step;
  std::vector<std::byte*> inputs, outputs;
  Tensor workspace;
};

DeviceProgram::DeviceProgram(const plan::Plan& plan, const ir::Graph& graph, Team& team, Branches branches,
                             std::shared_ptr<Arena> arena)
    : plan_(plan),
      graph_(graph),
      team_(team),
      device_(cuda::Device::get(cuda::index_of(plan.device))),
      layout_(plan::lay_out(graph, false, true)),
      arena_(std::move(arena)),
      weights_(device_.properties().index) {
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph_.nodes.size()); ++id)
    if (layout_.runs[id])
      keys_.push_back(plan::device_key(device_.properties(), plan::device_problem_of(graph_, id, layout_, plan_)));
  order_.resize(graph_.nodes.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::erase_if(order_, [&](ir::NodeId id) { return !layout_.runs[id]; });
  const auto known = plan_.records.find(plan::network_key(keys_));
  beside_ = branches == Branches::beside ||
            (branches == Branches::as_recorded && known != plan_.records.end() && known->second.kernel == plan::beside);
  if (beside_) {
    layout_ = plan::lay_out(graph, true, true);
    sort_by_depth();
  }
  trails_ = cuda::PinnedBuffer(most_lanes * sizeof(uint32_t));
  try {
    watched([&] {
      bind();
      segments_ = record();
    });
  } catch (const Error& error) {
    if (error.code() != Code::resource) throw;
    throw Error(error.code(), error.what(), {error.where(), error.why() + "; " + needs(), error.hint(), error.node()});
  }
}

DeviceProgram::~DeviceProgram() = default;

cuda::Address DeviceProgram::constant(ir::ValueId value) {
  cuda::Buffer& buffer = constants_[value];
  const Tensor& tensor = graph_.value(value).constant;
  if (!buffer.address() && tensor.bytes() > 0) {
    buffer = cuda::Buffer::kept(tensor.bytes());
    buffer.upload(tensor.data(), tensor.bytes());
  }
  return buffer.address();
}

cuda::Address DeviceProgram::address(ir::ValueId value) const {
  const plan::Place& place = layout_.places[value];
  const auto bytes = static_cast<uint64_t>(place.offset) * size_of(graph_.value(value).dtype);
  if (place.storage >= 0)
    return arena_->memory.address() + static_cast<uint64_t>(layout_.storages[place.storage].offset) + bytes;
  const auto input = inputs_.find(value);
  TENON_CHECK(input != inputs_.end(), graph_.value(value).name);
  return input->second.address() + bytes;
}

void DeviceProgram::bind() {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(layout_.arena_bytes, 1));
  const int index = device_.properties().index;
  if (!arena_ || arena_->device != index || arena_->memory.bytes() < bytes)
    arena_.reset(new Arena{index, cuda::Buffer(bytes, "the arena"), {}});
  for (ir::ValueId input : graph_.inputs) {
    const size_t bytes = std::max<size_t>(bytes_of(graph_, layout_, input), 1);
    inputs_[input] = cuda::Buffer(bytes, "an input");
    staging_[input] = cuda::PinnedBuffer(bytes);
  }
  for (ir::ValueId output : graph_.outputs)
    if (!graph_.value(output).is_constant() && !staging_.count(output))
      staging_[output] = cuda::PinnedBuffer(std::max<size_t>(bytes_of(graph_, layout_, output), 1));

  const cuda::Properties& properties = device_.properties();
  std::vector<backends::Problem> problems(graph_.nodes.size());
  std::vector<cuda::Choice> choices(graph_.nodes.size());
  std::vector<cuda::Source> sources;
  for (size_t at = 0; at < order_.size(); ++at) {
    const ir::NodeId id = order_[at];
    problems[id] = plan::device_problem_of(graph_, id, layout_, plan_);
    const auto record = plan_.records.find(keys_[at]);
    choices[id] =
        cuda::choose(problems[id], properties, record == plan_.records.end() ? std::string() : record->second.kernel);
    const auto& needed = choices[id].tactic.sources;
    sources.insert(sources.end(), needed.begin(), needed.end());
  }
  device_.prepare(sources);
  round_weights(problems);
  const cuda::Weights::Filling filling(weights_);
  size_t workspace = 0;
  for (const ir::NodeId id : order_) {
    BoundStep step{id, "cpu", nullptr, nullptr, {}, {}};
    const ir::Node& node = graph_.node(id);
    if (choices[id].kernel) {
      step.step = fitting_step(problems[id], choices[id]);
      step.kernel = choices[id].tactic.name;
      for (size_t at = 0; at < node.inputs.size(); ++at) {
        const ir::ValueId value = node.inputs[at];
        const bool is_constant = value != ir::no_value && graph_.value(value).is_constant();
        step.inputs.push_back(value == ir::no_value                  ? 0
                              : is_constant && !step.step->reads(at) ? 0
                              : is_constant                          ? constant(value)
                                                                     : address(value));
      }
      for (ir::ValueId value : node.outputs) step.outputs.push_back(value == ir::no_value ? 0 : address(value));
      workspace = std::max(workspace, step.step->workspace_bytes());
    } else {
      if (!mirror_.data()) mirror_ = cuda::PinnedBuffer(static_cast<size_t>(std::max<int64_t>(layout_.arena_bytes, 1)));
      step.host = host_step(id);
      keys_[steps_.size()].clear();
    }
    steps_.push_back(std::move(step));
  }
  reserve_workspace(workspace);
}

std::unique_ptr<cuda::Step> DeviceProgram::fitting_step(const backends::Problem& problem, cuda::Choice& choice) {
  auto step = choice.kernel->make(problem, device_, choice.tactic);
  if (cuda::fits_workspace(*step)) return step;
  const size_t wanted = step->workspace_bytes();
  for (cuda::Choice& other : cuda::choices(problem, device_.properties())) {
    step.reset();  // first, so that what it kept makes room
    step = other.kernel->make(problem, device_, other.tactic);
    if (!cuda::fits_workspace(*step)) continue;
    choice = std::move(other);
    return step;
  }
  throw Error(Code::resource, "no kernel keeps to the limit of workspace",
              {.where = "node " + problem.node->label(),
               .why = choice.tactic.name + " takes " + memory_text(static_cast<int64_t>(wanted)),
               .hint = "raise the limit with --workspace",
               .node = problem.node->label()});
}

void DeviceProgram::reserve_workspace(size_t bytes) {
  if (workspaces_.empty() || workspaces_.back().bytes() < bytes)
    workspaces_.push_back(cuda::Buffer(bytes, "the workspace of kernels"));
}

std::unique_ptr<DeviceProgram::HostStep> DeviceProgram::host_step(ir::NodeId id) const {
  auto host = std::make_unique<HostStep>();
  host->problem = plan::problem_of(graph_, id, layout_, team_.threads(), plan_);
  host->step = plan::choose(host->problem, plan_.records).make(host->problem);
  const auto pointer = [&](ir::ValueId value) -> std::byte* {
    if (value == ir::no_value) return nullptr;
    if (const Tensor* tensor = graph_.constant(value)) return const_cast<std::byte*>(tensor->data<std::byte>());
    const plan::Place& place = layout_.places[value];
    if (place.storage >= 0) return mirror_.data() + (address(value) - arena_->memory.address());
    return staging_.at(value).data() + place.offset * static_cast<int64_t>(size_of(graph_.value(value).dtype));
  };
  for (ir::ValueId value : graph_.node(id).inputs) host->inputs.push_back(pointer(value));
  for (ir::ValueId value : graph_.node(id).outputs) host->outputs.push_back(pointer(value));
  host->workspace = Tensor(DType::u8, {static_cast<int64_t>(host->step->workspace_bytes())});
  return host;
}

void DeviceProgram::enqueue(const BoundStep& step, cuda::Stream stream, size_t lane) const {
  const auto place = reinterpret_cast<cuda::Address>(trails_.data() + lane * sizeof(uint32_t));
  const auto number = static_cast<uint32_t>(&step - steps_.data() + 1);
  step.step->enqueue({stream, step.inputs.data(), step.outputs.data(), workspaces_.back().address(), {place, number}});
}

void DeviceProgram::run_host(BoundStep& step) {
  const cuda::Driver& d = cuda::driver();
  HostStep& host = *step.host;
  const ir::Node& node = graph_.node(step.node);
  const auto in_arena = [&](ir::ValueId value) { return value != ir::no_value && layout_.places[value].storage >= 0; };
  const auto fetch = [&](ir::ValueId value, const backends::Operand& operand, std::byte* to) {
    cuda::check(d.MemcpyDtoHAsync(to, address(value), extent(operand), clock_.stream()), "cuMemcpyDtoH");
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
    Team& team;
    std::exception_ptr fault;
  } context{host, team_, nullptr};
  team_.run(
      [](void* pointer, int id) {
        auto& [host, team, fault] = *static_cast<Context*>(pointer);
        try {
          host.step->run(host.inputs.data(), host.outputs.data(), team.worker(id, host.workspace.data<std::byte>()));
        } catch (...) {
          if (id == 0) fault = std::current_exception();
        }
      },
      &context);
  if (context.fault) std::rethrow_exception(context.fault);
  for (size_t at = 0; at < node.outputs.size(); ++at)
    if (in_arena(node.outputs[at]))
      cuda::check(d.MemcpyHtoDAsync(address(node.outputs[at]), host.outputs[at], extent(host.problem.outputs[at]),
                                    clock_.stream()),
                  "cuMemcpyHtoD");
}

void DeviceProgram::run_segments() {
  std::memset(trails_.data(), 0, most_lanes * sizeof(uint32_t));
  for (Segment& segment : segments_) {
    if (segment.recording) segment.recording.replay(clock_.stream());
    else run_host(steps_[segment.first]);
  }
}

void DeviceProgram::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets) {
  watched([&] {
    const std::lock_guard lock(arena_->running);
    upload(inputs);
    run_segments();
    download(targets);
  });
  for (size_t at = 0; at < outputs.size(); ++at) {
    const ir::ValueId id = graph_.outputs[at];
    const plan::Place& place = layout_.places[id];
    const bool aimed = at < targets.size() && targets[at];
    if (const Tensor* constant = graph_.constant(id)) outputs[at] = *constant;
    else if (place.storage >= 0 && aimed) outputs[at] = targets[at];
    else if (place.storage >= 0) outputs[at] = Tensor::view(graph_.value(id).dtype, place.dims, staging_.at(id).data());
    else outputs[at] = inputs[std::find(graph_.inputs.begin(), graph_.inputs.end(), id) - graph_.inputs.begin()];
  }
}

Tensor DeviceProgram::input(size_t at) const {
  const ir::ValueId id = graph_.inputs[at];
  return Tensor::view(graph_.value(id).dtype, layout_.places[id].dims, staging_.at(id).data());
}

cuda::Address DeviceProgram::output_address(size_t at) {
  const ir::ValueId id = graph_.outputs[at];
  return graph_.value(id).is_constant() ? constant(id) : address(id);
}

void DeviceProgram::enqueue(std::span<const cuda::Address> inputs, std::span<const cuda::Address> outputs,
                            cuda::Stream stream) {
  for (const Segment& segment : segments_)
    if (!segment.recording)
      throw Error(Code::unsupported, "a node of this engine runs on the CPU",
                  {.where = "node " + graph_.node(steps_[segment.first].node).label(),
                   .hint = "use run(), which waits for it",
                   .node = graph_.node(steps_[segment.first].node).label()});
  device_.use();
  watched([&] { enqueue_all(inputs, outputs, stream); });
}

void DeviceProgram::enqueue_all(std::span<const cuda::Address> inputs, std::span<const cuda::Address> outputs,
                                cuda::Stream stream) {
  const auto copy = [&](cuda::Address to, cuda::Address from, ir::ValueId value) {
    const size_t bytes = bytes_of(graph_, layout_, value);
    if (to != from && bytes > 0)
      cuda::check(cuda::driver().MemcpyDtoDAsync(to, from, bytes, stream), "cuMemcpyDtoDAsync");
  };
  for (size_t at = 0; at < inputs.size(); ++at)
    if (inputs[at]) copy(input_address(at), inputs[at], graph_.inputs[at]);
  for (const Segment& segment : segments_) segment.recording.replay(stream);
  for (size_t at = 0; at < outputs.size(); ++at)
    if (outputs[at]) copy(outputs[at], output_address(at), graph_.outputs[at]);
}

std::vector<double> DeviceProgram::time(int iterations) {
  device_.use();
  return watched([&] { return time_segments(iterations); });
}

std::vector<double> DeviceProgram::time_segments(int iterations) {
  const std::lock_guard lock(arena_->running);
  std::vector<double> times;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    double total = 0;
    for (Segment& segment : segments_) {
      if (segment.recording) {
        total += clock_.time(segment.recording) * 1e-3;
      } else {
        const auto begin = std::chrono::steady_clock::now();
        run_host(steps_[segment.first]);
        clock_.synchronise();
        total += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      }
    }
    times.push_back(total);
  }
  return times;
}

std::vector<LayerTime> DeviceProgram::profile(std::span<const Tensor> inputs, int iterations) {
  return watched([&] { return time_layers(inputs, iterations); });
}

std::vector<LayerTime> DeviceProgram::time_layers(std::span<const Tensor> inputs, int iterations) {
  const std::lock_guard lock(arena_->running);
  upload(inputs);
  run_segments();
  clock_.synchronise();
  std::vector<LayerTime> layers;
  for (BoundStep& step : steps_) {
    std::vector<double> times;
    if (step.step) {
      const cuda::Recording recording(clock_.stream(), [&] {
        for (int at = 0; at < timed_repeats; ++at) enqueue(step, clock_.stream());
      });
      clock_.time(recording);
      for (int at = 0; at < iterations; ++at) times.push_back(clock_.time(recording) / timed_repeats);
    } else {
      for (int at = 0; at < iterations; ++at) {
        const auto begin = std::chrono::steady_clock::now();
        run_host(step);
        clock_.synchronise();
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
    }
    std::sort(times.begin(), times.end());
    const ir::Node& node = graph_.node(step.node);
    layers.push_back(
        {node.op + " " + node.label(), node.origins, step.kernel, times.empty() ? 0 : times[times.size() / 2]});
  }
  return layers;
}

MemoryUse DeviceProgram::memory() const {
  MemoryUse use;
  use.arena_bytes = layout_.arena_bytes;
  use.arena_lower_bound = layout_.lower_bound;
  use.weights_bytes = static_cast<int64_t>(weights_.bytes());
  for (const auto& [id, buffer] : inputs_) use.input_bytes += static_cast<int64_t>(buffer.bytes());
  for (const cuda::Buffer& buffer : workspaces_) use.workspace_bytes += static_cast<int64_t>(buffer.bytes());
  use.device_bytes =
      static_cast<int64_t>(arena_->memory.bytes()) + use.weights_bytes + use.input_bytes + use.workspace_bytes;
  return use;
}

}  // namespace tenon::runtime
