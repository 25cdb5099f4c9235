#include <tenon/error.h>

#include "base/check.h"
#include "runtime/program.h"

/// Outputs of a program in memory of the caller.
namespace tenon::runtime {

std::optional<Dims> Program::output_sizes(size_t at) const {
  const std::optional<ir::Shape>& shape = graph_.value(graph_.outputs[at]).shape;
  if (!static_ || !shape) return std::nullopt;
  Dims dims;
  for (const ir::Dim& dim : *shape) dims.push_back(dim.value());
  return dims;
}

std::map<int, size_t> Program::outputs_alone() const {
  std::map<int, size_t> alone;
  std::map<int, int> users;
  for (size_t at = 0; at < graph_.outputs.size(); ++at) {
    const ir::ValueId id = graph_.outputs[at];
    const plan::Place& place = layout_.places[id];
    if (graph_.constant(id) || place.storage < 0 || ++users[place.storage] > 1) continue;
    const int64_t bytes = place.dims.elements() * static_cast<int64_t>(size_of(graph_.value(id).dtype));
    const bool fills = place.offset == 0 && layout_.storages[place.storage].bytes == bytes &&
                       place.strides == backends::dense_strides(place.dims);
    if (fills) alone[place.storage] = at;
  }
  std::erase_if(alone, [&](const auto& entry) { return users[entry.first] > 1; });
  return alone;
}

void Program::aim_at(std::span<const Tensor> targets) {
  for (auto& [at, storage] : output_storages_) {
    std::byte* memory =
        targets.empty() || !targets[at] ? nullptr : const_cast<std::byte*>(targets[at].data<std::byte>());
    if (memory == storage.memory) continue;
    storage.memory = memory;
    const plan::Storage& own = layout_.storages[layout_.places[graph_.outputs[at]].storage];
    std::byte* base = memory ? memory : arena_.get() + own.offset;
    for (const OutputSlot& slot : storage.slots)
      (slot.is_input ? steps_[slot.step].inputs : steps_[slot.step].outputs)[slot.operand] = base + slot.bytes;
  }
}

void fill(Tensor& output, const Tensor& target) {
  if (output.data() == target.data() && output.dims() == target.dims()) {
    output = target;
    return;
  }
  if (!target.on_cpu())
    throw Error(Code::unsupported, "an output cannot be written to memory of " + target.device().str(),
                {.why = "it is an input, a constant, or computed on the CPU", .hint = "bind memory of the process"});
  if (output.dims() != target.dims())
    throw Error(Code::usage, "an output has other sizes than the tensor it is bound to",
                {.why = "it is " + output.dims().str() + ", the tensor " + target.dims().str()});
  output.copy_to(const_cast<void*>(target.data()));
  output = target;
}

}  // namespace tenon::runtime
