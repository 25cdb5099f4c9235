// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/body.h"

#include <algorithm>
#include <set>

#include "backends/cuda/runtime/conditional_node.h"
#include "backends/cuda/runtime/executable.h"
#include "base/check.h"
#include "ops/control_flow.h"

namespace tenon::cuda {
namespace {

constexpr int64_t most_launches = 8192;  // of an unrolled loop: a recording of more takes long to make

/// What one walk through the body records; below 0 where the host has a part in it.
int64_t launches_of(const backends::Schedule& body) {
  int64_t launches = 0;
  for (const backends::ScheduledStep& step : body.steps) {
    if (step.host || step.tactic == host_hop) return -1;
    launches += 1;
    if (!step.blocks) continue;
    const int64_t rounds = step.tactic == unrolled ? rounds_of(step.problem) : 1;
    for (const backends::Schedule& block : *step.blocks) launches += rounds * (launches_of(block) + 3);
  }
  return launches;
}

bool is_dense(const Problem& problem) {
  const auto good = [](const Operand& operand) { return !operand || (operand.dense() && operand.aligned); };
  return std::all_of(problem.inputs.begin(), problem.inputs.end(), good) &&
         std::all_of(problem.outputs.begin(), problem.outputs.end(), good);
}

/// Whether an entry along the axis is one run of bytes.
bool is_leading(const Operand& stack, int64_t axis) {
  if (axis < 0) axis += static_cast<int64_t>(stack.dims.rank());
  for (int64_t at = 0; at < axis; ++at)
    if (stack.dims[static_cast<size_t>(at)] != 1) return false;
  return true;
}

bool can_unroll(const Problem& problem, const ops::LoopForm& form, const backends::Schedule& body) {
  const int64_t rounds = rounds_of(problem), launches = launches_of(body);
  if (rounds < 0 || launches < 0 || rounds > most_launches / (launches + 3)) return false;
  for (size_t at = 0; at < form.scanned; ++at)
    if (!is_leading(problem.inputs[form.first_scanned() + at], form.scanned_axes[at].axis)) return false;
  for (size_t at = 0; at < form.scans; ++at)
    if (const Operand& stack = problem.outputs[form.carried + at]; stack && !is_leading(stack, form.scan_axes[at].axis))
      return false;
  return form.first_scan() == 0 || form.scanned > 0 || ops::always_goes_on(body.graph);
}

/// A loop whose state stays in its place: no value moves to that of another.
bool keeps_places(const ops::LoopForm& form, const backends::Schedule& body) {
  if (!form.counts || form.scans > 0 || launches_of(body) < 0) return false;
  for (size_t at = 0; at < form.carried; ++at) {
    const ir::ValueId output = body.graph.outputs[form.first_result() + at];
    const auto input = std::find(body.graph.inputs.begin(), body.graph.inputs.end(), output);
    const auto place = static_cast<size_t>(input - body.graph.inputs.begin());
    if (input != body.graph.inputs.end() && place != form.first_carried() + at && place < form.first_capture())
      return false;
  }
  return true;
}

}  // namespace

int64_t rounds_of(const Problem& problem) {
  const auto form = ops::loop_form(*problem.node);
  if (!form) return -1;
  if (!form->counts) {
    const Operand& stack = problem.inputs[form->first_scanned()];
    const int64_t axis = form->scanned_axes[0].axis;
    return stack.dims[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(stack.dims.rank()) : axis)];
  }
  const Operand &trips = problem.inputs[0], &condition = problem.inputs[1];
  if (condition && !condition.constant) return -1;
  if (condition && *condition.constant.data<uint8_t>() == 0) return 0;
  if (!trips.constant) return -1;
  return std::max<int64_t>(
      0, trips.dtype == DType::i64 ? *trips.constant.data<int64_t>() : *trips.constant.data<int32_t>());
}

std::string choose_blocks(const Problem& problem, const std::vector<backends::Schedule>& blocks) {
  if (!is_dense(problem)) return {};
  const char* by_condition = has_conditional_nodes() ? conditional : host_hop;
  if (ops::flow_of(problem.node->op) == ops::Flow::branch)
    return launches_of(blocks[0]) >= 0 && launches_of(blocks[1]) >= 0 ? by_condition : "";
  const auto form = ops::loop_form(*problem.node);
  if (!form) return {};
  if (can_unroll(problem, *form, blocks[0])) return unrolled;
  return keeps_places(*form, blocks[0]) ? by_condition : "";
}

std::unique_ptr<Step> make_with_blocks(const backends::ScheduledStep& step, Device& device, ThreadPool& thread_pool) {
  return step.tactic == unrolled ? make_unrolled(step.problem, (*step.blocks)[0], device, thread_pool)
                                 : make_conditional(step.problem, *step.blocks, device, thread_pool);
}

void copy(Address to, Address from, size_t bytes, Stream stream) {
  if (bytes > 0 && to != from) check(driver().MemcpyDtoDAsync(to, from, bytes, stream), "cuMemcpyDtoD");
}

std::map<int, size_t> storages_of_one_output(const backends::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  std::map<int, std::set<ir::ValueId>> values;
  for (const ir::ValueId output : graph.outputs)
    if (!graph.value(output).is_constant()) values[schedule.layout.places[output].storage].insert(output);
  std::map<int, size_t> storages;
  for (size_t at = 0; at < graph.outputs.size(); ++at) {
    const ir::Value& value = graph.value(graph.outputs[at]);
    const backends::Place& place = schedule.layout.places[graph.outputs[at]];
    if (value.is_constant() || place.storage < 0 || values[place.storage].size() > 1) continue;
    const int64_t bytes = place.dims.elements() * static_cast<int64_t>(size_of(value.dtype));
    if (place.offset == 0 && place.strides == backends::dense_strides(place.dims) &&
        schedule.layout.storages[place.storage].bytes == bytes)
      storages[place.storage] = at;
  }
  return storages;
}

Body::Body(const backends::Schedule& schedule, Device& device, ThreadPool& thread_pool) : schedule_(schedule) {
  std::vector<Problem> problems;  // of their own, as their weights are rounded
  std::vector<Choice> choices;
  std::vector<Source> sources;
  for (const backends::ScheduledStep& step : schedule_.steps) {
    problems.push_back(step.problem);
    choices.push_back(step.blocks ? Choice() : choose(step.problem, device.properties(), step.tactic));
    sources.insert(sources.end(), choices.back().tactic.sources.begin(), choices.back().tactic.sources.end());
  }
  device.prepare(sources);
  round_weights(problems, thread_pool);
  const auto upload = [&](ir::ValueId value) {
    Buffer& buffer = constants_[value];
    const Tensor& tensor = graph().value(value).constant;
    if (buffer.address() || tensor.bytes() == 0) return;
    buffer = Buffer::kept(tensor.bytes());
    buffer.upload(tensor.data(), tensor.bytes());
  };
  for (size_t at = 0; at < problems.size(); ++at) {
    const backends::ScheduledStep& step = schedule_.steps[at];
    steps_.push_back(step.blocks ? make_with_blocks(step, device, thread_pool)
                                 : choices[at].kernel->make(problems[at], device, choices[at].tactic));
    workspace_bytes_ = std::max(workspace_bytes_, steps_.back()->workspace_bytes());
    const std::vector<ir::ValueId>& inputs = graph().node(step.node).inputs;
    for (size_t input = 0; input < inputs.size(); ++input)
      if (graph().constant(inputs[input]) && steps_.back()->reads(input)) upload(inputs[input]);
  }
  for (const ir::ValueId output : graph().outputs)
    if (graph().constant(output)) upload(output);
  workspace_at_ = (static_cast<size_t>(schedule_.layout.arena_bytes) + boundary - 1) / boundary * boundary;
  storages_ = storages_of_one_output(schedule_);
}

bool Body::can_aim(size_t output) const { return !is_constant(output) && storages_.count(storage_of(output)) > 0; }

size_t Body::bytes_of(size_t output) const {
  const ir::ValueId value = graph().outputs[output];
  if (const Tensor* constant = graph().constant(value)) return constant->bytes();
  return static_cast<size_t>(schedule_.layout.places[value].dims.elements()) * size_of(graph().value(value).dtype);
}

int Body::input_of(size_t output) const {
  const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), graph().outputs[output]);
  return input == graph().inputs.end() ? -1 : static_cast<int>(input - graph().inputs.begin());
}

Address Body::address(ir::ValueId value, const Places& places) const {
  if (graph().value(value).is_constant()) {
    const auto constant = constants_.find(value);
    return constant == constants_.end() ? 0 : constant->second.address();
  }
  const backends::Place& place = schedule_.layout.places[value];
  const auto bytes = static_cast<uint64_t>(place.offset) * size_of(graph().value(value).dtype);
  if (place.storage >= 0) {
    const auto aimed = places.aimed.find(place.storage);
    if (aimed != places.aimed.end()) return aimed->second + bytes;
    return places.memory + static_cast<uint64_t>(schedule_.layout.storages[place.storage].offset) + bytes;
  }
  const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), value);
  TENON_CHECK(input != graph().inputs.end(), graph().value(value).name);
  return places.inputs[static_cast<size_t>(input - graph().inputs.begin())] + bytes;
}

void Body::enqueue(const Places& places, const Launch& launch) const {
  std::vector<Address> inputs, outputs;
  for (size_t at = 0; at < steps_.size(); ++at) {
    const ir::Node& node = graph().node(schedule_.steps[at].node);
    inputs.clear(), outputs.clear();
    for (const ir::ValueId value : node.inputs) inputs.push_back(value == ir::no_value ? 0 : address(value, places));
    for (const ir::ValueId value : node.outputs) outputs.push_back(value == ir::no_value ? 0 : address(value, places));
    Launch inside = launch;
    inside.inputs = inputs.data(), inside.outputs = outputs.data(), inside.workspace = places.memory + workspace_at_;
    steps_[at]->enqueue(inside);
  }
}

}  // namespace tenon::cuda
