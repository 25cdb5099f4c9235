// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/aims.h"

#include <algorithm>

#include "backends/cuda/runtime/body.h"

/// Runs on device memory of the caller. A recording holds addresses, so there is one for each set of addresses that
/// comes again; what came only once is copied to and from the executable's own memory.
namespace tenon::cuda {
namespace {

struct Range {
  Address begin;
  size_t bytes;
  bool written;
};

bool overlap(const Range& a, const Range& b) { return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes; }

bool is_empty(std::span<const Address> places) {
  return std::all_of(places.begin(), places.end(), [](Address place) { return place == 0; });
}

}  // namespace

bool DeviceExecutable::is_aimed_output(size_t at) const { return aim_ && aim_->outputs[at] != 0; }

const DeviceExecutable::Aim* DeviceExecutable::aim_at(std::span<const Address> given) {
  const bool recorded = segments_.size() == 1 && segments_.front().recording;
  if (!recorded || is_empty(given)) return nullptr;
  const auto found = std::find_if(aims_.begin(), aims_.end(), [&](const Aim& aim) {
    return std::equal(given.begin(), given.end(), aim.given.begin(), aim.given.end());
  });
  if (found == aims_.end()) {
    if (aims_.size() == most_aims) aims_.pop_back();
    aims_.emplace_front().given.assign(given.begin(), given.end());
    return nullptr;
  }
  aims_.splice(aims_.begin(), aims_, found);
  Aim& aim = aims_.front();
  if (!aim.again) {
    aim.again = true;
    choose_places(aim);
    if (!is_empty(aim.inputs) || !is_empty(aim.outputs)) record(aim);
  }
  return aim.recording ? &aim : nullptr;
}

void DeviceExecutable::choose_places(Aim& aim) {
  std::vector<Range> ranges{{arena_->memory.address(), arena_->memory.bytes(), true},
                            {workspaces_.back().address(), workspaces_.back().bytes(), true}};
  std::vector<Address> inputs, outputs;
  const size_t count = graph().inputs.size();
  for (size_t at = 0; at < count; ++at) {
    const Address own = input_address(at), given = aim.given[at];
    inputs.push_back(given == own ? 0 : given);
    ranges.push_back({given ? given : own, bytes_of(graph().inputs[at]), false});
  }
  for (size_t at = 0; at < graph().outputs.size(); ++at) {
    const Address given = aim.given[count + at];
    const auto storage = aimable_.find(layout().places[graph().outputs[at]].storage);
    const bool can_aim = given && storage != aimable_.end() && storage->second == at && given != output_address(at);
    outputs.push_back(can_aim ? given : 0);
    if (can_aim) ranges.push_back({given, bytes_of(graph().outputs[at]), true});
  }
  for (size_t a = 0; a < ranges.size(); ++a) {
    if (ranges[a].begin % boundary != 0) return;
    for (size_t b = 0; b < a; ++b)
      if ((ranges[a].written || ranges[b].written) && overlap(ranges[a], ranges[b])) return;
  }
  aim.inputs = std::move(inputs), aim.outputs = std::move(outputs);
}

void DeviceExecutable::move_operands() {
  for (BoundStep& step : steps_) {
    const ir::Node& node = graph().node(step.node);
    const auto move = [&](const std::vector<ir::ValueId>& values, std::vector<Address>& places) {
      for (size_t at = 0; at < values.size(); ++at)
        if (values[at] != ir::no_value && !graph().value(values[at]).is_constant()) places[at] = address_of(values[at]);
    };
    move(node.inputs, step.inputs), move(node.outputs, step.outputs);
  }
}

void DeviceExecutable::record(Aim& aim) {
  struct Back {
    DeviceExecutable& executable;
    ~Back() { executable.aim_ = nullptr, executable.move_operands(); }
  } const back{*this};
  aim_ = &aim;
  move_operands();
  aim.recording = std::move(record().front().recording);
}

uint64_t DeviceExecutable::output_address(size_t at) {
  const ir::ValueId id = graph().outputs[at];
  return graph().value(id).is_constant() ? compiled_->constant(id) : address_of(id);
}

void DeviceExecutable::enqueue_all(std::span<const Address> inputs, std::span<const Address> outputs, Stream stream) {
  given_.assign(inputs.begin(), inputs.end());
  given_.insert(given_.end(), outputs.begin(), outputs.end());
  const Aiming aiming(*this, aim_at(given_));
  for (size_t at = 0; at < inputs.size(); ++at)
    if (inputs[at] && !is_aimed_input(at))
      copy(input_address(at), inputs[at], bytes_of(graph().inputs[at]), stream);
  if (aim_) aim_->recording.replay(stream);
  else
    for (const Segment& segment : segments_) segment.recording.replay(stream);
  for (size_t at = 0; at < outputs.size(); ++at)
    if (outputs[at] && !is_aimed_output(at))
      copy(outputs[at], output_address(at), bytes_of(graph().outputs[at]), stream);
}

}  // namespace tenon::cuda
