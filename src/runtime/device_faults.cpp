#include "base/memory.h"
#include "runtime/device_program.h"

/// What a program on a GPU says where its memory does not suffice, or its device fails.
namespace tenon::runtime {

std::string DeviceProgram::under_way() const {
  const auto* trails = reinterpret_cast<const volatile uint32_t*>(trails_.data());
  std::string text;
  for (size_t lane = 0; lane < most_lanes; ++lane) {
    // A trail is one more than the step; where the steps behind it leave none, one of them may have begun.
    for (size_t at = trails[lane]; at > 0 && at <= steps_.size(); ++at) {
      const BoundStep& step = steps_[at - 1];
      text += (text.empty() ? "" : ", or ") + graph_.node(step.node).op + " " + graph_.node(step.node).label() +
              ", kernel \"" + step.kernel + "\"";
      if (at == steps_.size() || !steps_[at].step || steps_[at].step->leaves_trail()) break;
    }
  }
  return text.empty() ? "before the first kernel of a run began" : text;
}

std::string DeviceProgram::needs() const {
  int64_t inputs = 0, weights = 0;
  for (const ir::ValueId input : graph_.inputs)
    inputs += layout_.places[input].dims.elements() * static_cast<int64_t>(size_of(graph_.value(input).dtype));
  for (const ir::Value& value : graph_.values)
    if (value.is_constant() && size_of(value.dtype)) weights += static_cast<int64_t>(value.constant.bytes());
  return "the engine takes " + memory_text(layout_.arena_bytes + inputs + weights) +
         " at least: " + memory_text(layout_.arena_bytes) + " of arena, " + memory_text(inputs) + " of inputs and " +
         memory_text(weights) + " of weights";
}

}  // namespace tenon::runtime
