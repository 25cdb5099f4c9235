// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/executable.h"

/// Outputs of an executable in memory of the caller.
namespace tenon::cpu {

void HostExecutable::find_outputs() {
  std::map<int, int> users;
  for (size_t at = 0; at < graph().outputs.size(); ++at) {
    const ir::ValueId id = graph().outputs[at];
    const backends::Place& place = layout().places[id];
    if (graph().constant(id) || place.storage < 0 || ++users[place.storage] > 1) continue;
    const int64_t bytes = place.dims.elements() * static_cast<int64_t>(size_of(graph().value(id).dtype));
    const bool fills = place.offset == 0 && layout().storages[place.storage].bytes == bytes &&
                       place.strides == backends::dense_strides(place.dims);
    if (fills) alone_[place.storage] = at;
  }
  std::erase_if(alone_, [&](const auto& entry) { return users[entry.first] > 1; });
}

void HostExecutable::aim_at(std::span<const Tensor> targets) {
  for (auto& [at, storage] : output_storages_) {
    const bool given = !targets.empty() && targets[at];
    std::byte* memory = given ? const_cast<std::byte*>(targets[at].data<std::byte>()) : nullptr;
    if (memory == storage.memory) continue;
    storage.memory = memory;
    const backends::Storage& own = layout().storages[layout().places[graph().outputs[at]].storage];
    std::byte* base = memory ? memory : arena_.get() + own.offset;
    for (const OutputSlot& slot : storage.slots)
      (slot.is_input ? steps_[slot.step].inputs : steps_[slot.step].outputs)[slot.operand] = base + slot.bytes;
  }
}

}  // namespace tenon::cpu
