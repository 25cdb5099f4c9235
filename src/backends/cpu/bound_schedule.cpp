// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/bound_schedule.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace tenon::cpu {

using backends::Place;

namespace {
constexpr size_t page = 4096;
}

BoundSchedule::BoundSchedule(const ScheduleKernels& kernels) : kernels_(kernels), inputs_(graph().inputs.size()) {
  size_t operands = 0;
  steps_.reserve(schedule().steps.size());
  for (size_t at = 0; at < schedule().steps.size(); ++at) {
    const ir::Node& node = graph().node(schedule().steps[at].node);
    steps_.push_back({kernels_.step(at), operands, operands + node.inputs.size()});
    operands += node.inputs.size() + node.outputs.size();
  }
  operands_.reserve(operands), arena_.reserve(operands);
  for (const BoundStep& step : steps_) workspace_bytes_ = std::max(workspace_bytes_, step.step->workspace_bytes());
  const auto arena = static_cast<size_t>(layout().arena_bytes);
  workspace_at_ = workspace_bytes_ == 0 ? arena : (arena + page - 1) / page * page;
  find_outputs();
  for (size_t at = 0; at < steps_.size(); ++at) add_operands(at);
}

void BoundSchedule::find_outputs() {
  std::map<int, std::set<ir::ValueId>> values;
  for (const ir::ValueId id : graph().outputs)
    if (const Place& place = layout().places[id]; !schedule().constant(id) && place.storage >= 0)
      values[place.storage].insert(id);
  for (const auto& [storage, ids] : values) {
    const ir::ValueId id = *ids.begin();
    const Place& place = layout().places[id];
    const int64_t bytes = place.dims.elements() * static_cast<int64_t>(size_of(graph().value(id).dtype));
    const bool fills = place.offset == 0 && layout().storages[storage].bytes == bytes &&
                       place.strides == backends::dense_strides(place.dims);
    if (ids.size() == 1 && fills) aimed_[storage];
  }
}

int64_t BoundSchedule::bytes_before(ir::ValueId value) const {
  return layout().places[value].offset * static_cast<int64_t>(size_of(graph().value(value).dtype));
}

void BoundSchedule::add_operand(ir::ValueId value) {
  const Slot slot{operands_.size(), value == ir::no_value ? 0 : bytes_before(value)};
  operands_.push_back(nullptr);
  if (value == ir::no_value) return;
  if (const Tensor* constant = schedule().constant(value)) {
    operand(slot) = const_cast<std::byte*>(constant->data<std::byte>());
    return;
  }
  const int storage = layout().places[value].storage;
  if (storage >= 0) {
    arena_.push_back({slot, storage});
    if (const auto output = aimed_.find(storage); output != aimed_.end()) output->second.slots.push_back(slot);
    return;
  }
  const auto input = std::find(graph().inputs.begin(), graph().inputs.end(), value);
  TENON_CHECK(input != graph().inputs.end(), graph().value(value).name);
  inputs_[input - graph().inputs.begin()].push_back(slot);
}

void BoundSchedule::add_operands(size_t at) {
  const ir::Node& node = graph().node(schedule().steps[at].node);
  for (const ir::ValueId input : node.inputs) add_operand(input);
  for (const ir::ValueId output : node.outputs) add_operand(output);
}

void BoundSchedule::place_in(std::byte* memory) {
  if (memory == memory_) return;
  memory_ = memory;
  for (auto& [storage, aimed] : aimed_) aimed.memory = nullptr;
  for (const auto& [slot, storage] : arena_)
    operand(slot) = memory_ + layout().storages[static_cast<size_t>(storage)].offset + slot.bytes;
}

void BoundSchedule::aim_input(size_t at, const std::byte* memory) {
  for (const Slot& slot : inputs_[at]) operand(slot) = const_cast<std::byte*>(memory) + slot.bytes;
}

bool BoundSchedule::can_aim(size_t output) const {
  const ir::ValueId id = graph().outputs[output];
  return !schedule().constant(id) && aimed_.count(layout().places[id].storage) > 0;
}

void BoundSchedule::aim_output(size_t output, std::byte* memory) {
  const int storage = layout().places[graph().outputs[output]].storage;
  Aimed& aimed = aimed_.at(storage);
  if (memory == aimed.memory) return;
  aimed.memory = memory;
  std::byte* base = memory ? memory : memory_ + layout().storages[static_cast<size_t>(storage)].offset;
  for (const Slot& slot : aimed.slots) operand(slot) = base + slot.bytes;
}

std::byte* BoundSchedule::address(ir::ValueId value) const {
  const int storage = layout().places[value].storage;
  TENON_CHECK(storage >= 0, graph().value(value).name);
  if (const auto aimed = aimed_.find(storage); aimed != aimed_.end() && aimed->second.memory)
    return aimed->second.memory + bytes_before(value);
  return memory_ + layout().storages[static_cast<size_t>(storage)].offset + bytes_before(value);
}

}  // namespace tenon::cpu
