// SPDX-License-Identifier: Apache-2.0
#include "passes/bodies.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether anything in the body reads its input, counted from behind.
bool reads(const ir::Graph& body, size_t from_behind) {
  if (from_behind >= body.inputs.size()) return true;
  const ir::ValueId input = body.inputs[body.inputs.size() - 1 - from_behind];
  return !body.value(input).users.empty() || body.is_output(input);
}

}  // namespace

bool drop_captures(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const int64_t captures = graph.node(id).integer("captures", 0);
    std::vector<std::string> names;
    for (const auto& [name, attribute] : graph.node(id).attributes)
      if (std::holds_alternative<ir::GraphRef>(attribute)) names.push_back(name);
    if (names.empty()) return false;
    std::vector<ir::ValueId> inputs = graph.node(id).inputs;
    std::vector<size_t> dropped;  // counted from behind, the last first
    for (size_t at = 0; at < static_cast<size_t>(captures); ++at) {
      bool needed = false;
      for (const std::string& name : names) needed = needed || reads(*graph.node(id).graph(name), at);
      if (!needed) dropped.push_back(at);
    }
    if (dropped.empty()) return false;
    for (const std::string& name : names) {
      auto body = std::make_shared<ir::Graph>(*graph.node(id).graph(name));
      for (size_t at = dropped.size(); at-- > 0;)
        body->inputs.erase(body->inputs.end() - 1 - static_cast<int64_t>(dropped[at]));
      body->tidy();
      graph.node(id).attributes[name] = std::move(body);
    }
    for (size_t at = dropped.size(); at-- > 0;) inputs.erase(inputs.end() - 1 - static_cast<int64_t>(dropped[at]));
    graph.node(id).attributes["captures"] = captures - static_cast<int64_t>(dropped.size());
    graph.set_inputs(id, std::move(inputs));
    return true;
  });
}

}  // namespace tenon::passes
