// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "ops/control_flow.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

std::string list_text(const Dims& list) { return ir::str(ir::Shape(list.begin(), list.end())); }

/// "s3+128": bytes into a storage, or the name of an input or constant.
std::string place_text(const backends::Schedule& schedule, ir::ValueId id) {
  const ir::Value& value = schedule.graph.value(id);
  if (schedule.constant(id)) return "const " + printable(value.name);
  const Place& place = schedule.layout.places[static_cast<size_t>(id)];
  const int64_t bytes = place.offset * static_cast<int64_t>(size_of(value.dtype));
  const std::string whole = place.storage < 0 ? printable(value.name) : "s" + std::to_string(place.storage);
  return bytes ? whole + "+" + std::to_string(bytes) : whole;
}

std::string operand_text(const backends::Schedule& schedule, ir::ValueId id, const backends::Operand& operand) {
  if (id == ir::no_value) return "_";
  std::string text = place_text(schedule, id) + " " + std::string(name(operand.dtype)) + list_text(operand.dims);
  if (!operand.dense()) text += "/" + list_text(operand.strides);
  return text;
}

std::string step_text(const backends::Schedule& schedule, size_t place, const std::string& indent) {
  const backends::ScheduledStep& step = schedule.steps[place];
  const backends::Problem problem = schedule.problem(place);
  const ir::Node& node = schedule.graph.node(step.node);
  std::string in, out;
  for (size_t at = 0; at < node.inputs.size(); ++at)
    in += (at ? ", " : "") + operand_text(schedule, node.inputs[at], problem.inputs[at]);
  for (size_t at = 0; at < node.outputs.size(); ++at)
    out += (at ? ", " : "") + operand_text(schedule, node.outputs[at], problem.outputs[at]);
  const std::string tactic = step.host ? "host:" + step.host->tactic : step.tactic;
  return fmt::format("{:<6} {:<20} {}\n{}          {}\n{}          -> {}\n", name(kind_of(node, step)), tactic,
                     printable(node.op + " " + node.label()), indent, in, indent, out);
}

/// The buffers and steps, and behind a step those of the bodies that it runs, further in.
std::string text_of(const backends::Schedule& schedule, const std::string& indent) {
  const ir::Graph& graph = schedule.graph;
  int64_t constants = 0;
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && size_of(value.dtype)) constants += static_cast<int64_t>(value.constant.bytes());
  std::string text = fmt::format("{0}buffer   arena {1} bytes\n{0}buffer   constants {2} bytes\n", indent,
                                 schedule.layout.arena_bytes, constants);
  for (const ir::ValueId id : graph.inputs)
    text += fmt::format("{}buffer   input {} {}{}\n", indent, printable(graph.value(id).name),
                        name(graph.value(id).dtype),
                        list_text(schedule.layout.places[static_cast<size_t>(id)].dims));
  for (size_t at = 0; at < schedule.layout.storages.size(); ++at) {
    const Storage& storage = schedule.layout.storages[at];
    text += fmt::format("{}buffer   s{} at {}, {} bytes\n", indent, at, storage.offset, storage.bytes);
  }
  for (size_t at = 0; at < graph.outputs.size(); ++at)
    text += fmt::format("{}output   {} is {}\n", indent, printable(output_name(graph, at)),
                        place_text(schedule, graph.outputs[at]));
  for (size_t at = 0; at < schedule.steps.size(); ++at) {
    const backends::ScheduledStep& step = schedule.steps[at];
    text += fmt::format("{}step {:>4} {}", indent, at, step_text(schedule, at, indent));
    if (!step.blocks) continue;
    const ir::Node& node = graph.node(step.node);
    const std::vector<std::string> names = ops::bodies_of(node);
    for (size_t body = 0; body < names.size(); ++body) {
      const backends::Schedule& block = (*step.blocks)[body];
      text += fmt::format("{}block    {} of {}: {} step{}, {} thread{}\n{}", indent, names[body],
                          printable(node.op + " " + node.label()), block.steps.size(),
                          block.steps.size() == 1 ? "" : "s", block.threads, block.threads == 1 ? "" : "s",
                          text_of(block, indent + "  "));
    }
  }
  return text;
}

}  // namespace

StepKind kind_of(const ir::Node& node, const backends::ScheduledStep& step) {
  if (const ops::Flow flow = ops::flow_of(node.op); flow != ops::Flow::none)
    return flow == ops::Flow::branch ? StepKind::branch : StepKind::loop;
  if (step.host) return StepKind::call;
  return ops::has_trait(node.op, ops::Trait::moves) ? StepKind::copy : StepKind::launch;
}

std::string_view name(StepKind kind) {
  switch (kind) {
    case StepKind::copy: return "copy";
    case StepKind::branch: return "branch";
    case StepKind::loop: return "loop";
    case StepKind::call: return "call";
    case StepKind::launch: break;
  }
  return "launch";
}

std::string print(const backends::Schedule& schedule) { return text_of(schedule, ""); }

}  // namespace tenon::plan
