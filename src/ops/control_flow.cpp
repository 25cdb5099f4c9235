// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow.h"

#include "ops/op.h"

namespace tenon::ops {
namespace {

/// `count` axes, each 0 and forward where the node says nothing.
std::optional<std::vector<LoopForm::Axis>> axes_of(const ir::Node& node, const std::string& kind, size_t count) {
  std::vector<int64_t> axes = node.integers(kind + "_axes"), directions = node.integers(kind + "_directions");
  if (axes.empty()) axes.assign(count, 0);
  if (directions.empty()) directions.assign(count, 0);
  if (axes.size() != count || directions.size() != count) return std::nullopt;
  std::vector<LoopForm::Axis> list;
  for (size_t at = 0; at < count; ++at) list.push_back({axes[at], directions[at] != 0});
  return list;
}

std::map<ir::OpId, Flow>& flows() {
  static std::map<ir::OpId, Flow> ops;
  return ops;
}

}  // namespace

FlowRegistrar::FlowRegistrar(const char* op, Flow flow) { flows()[ir::OpId(op)] = flow; }

Flow flow_of(const ir::OpId& op) {
  const auto found = flows().find(op);
  return found == flows().end() ? Flow::none : found->second;
}

std::vector<std::string> bodies_of(const ir::Node& node) {
  switch (flow_of(node.op)) {
    case Flow::branch: return {"then_branch", "else_branch"};
    case Flow::loop: return {"body"};
    default: return {};
  }
}

std::optional<LoopForm> loop_form(const ir::Node& node) {
  if (flow_of(node.op) != Flow::loop) return std::nullopt;
  LoopForm form;
  form.counts = node.op == "Loop";
  const int64_t captures = node.integer("captures", 0), scanned = form.counts ? 0 : node.integer("num_scan_inputs", 1);
  const auto inputs = static_cast<int64_t>(node.inputs.size() - (form.counts ? 2 : 0));
  if (node.inputs.size() < form.first_carried() || captures < 0 || scanned < 0 || captures > inputs ||
      scanned > inputs - captures)
    return std::nullopt;
  form.captures = static_cast<size_t>(captures), form.scanned = static_cast<size_t>(scanned);
  form.carried = static_cast<size_t>(inputs - captures - scanned);
  if (node.outputs.size() < form.carried) return std::nullopt;
  form.scans = node.outputs.size() - form.carried;
  const auto scanned_axes = axes_of(node, "scan_input", form.scanned);
  const auto scan_axes = axes_of(node, "scan_output", form.scans);
  if (!scanned_axes || !scan_axes) return std::nullopt;
  form.scanned_axes = *scanned_axes, form.scan_axes = *scan_axes;
  return form;
}

bool always_goes_on(const ir::Graph& body) {
  ir::ValueId again = body.outputs[0];
  while (const ir::Node* maker = body.producer(again)) {
    if (maker->op != "Identity") return false;
    again = maker->inputs[0];
  }
  if (const Tensor* constant = body.constant(again))
    return constant->dtype() == DType::boolean && constant->elements() == 1 && *constant->data<uint8_t>() != 0;
  return body.inputs.size() > 1 && again == body.inputs[1];
}

}  // namespace tenon::ops
