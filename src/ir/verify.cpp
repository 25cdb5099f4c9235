// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "ir/graph.h"

namespace tenon::ir {
namespace {

[[noreturn]] void fail(const Graph& graph, const std::string& what) {
  throw std::logic_error("graph \"" + graph.name + "\": " + what);
}

std::string of(const Graph& graph, ValueId id) { return "value %" + graph.value(id).name; }

void check_id(const Graph& graph, ValueId id, const std::string& where) {
  if (id < 0 || static_cast<size_t>(id) >= graph.values.size())
    fail(graph, where + " names value " + std::to_string(id) + ", which does not exist");
}

void check_use(const Graph& graph, const std::vector<bool>& defined, ValueId id, const std::string& where) {
  check_id(graph, id, where);
  if (!defined[id]) fail(graph, where + " uses " + of(graph, id) + " before it is defined");
}

}  // namespace

void verify(const Graph& graph) {
  std::vector<bool> defined(graph.values.size(), false);
  for (ValueId id : graph.inputs) {
    check_id(graph, id, "the input list");
    if (defined[id]) fail(graph, of(graph, id) + " is an input twice");
    if (graph.value(id).producer != no_node) fail(graph, of(graph, id) + " is an input with a producer");
    defined[id] = true;
  }
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (const Value& value = graph.values[id]; value.is_constant()) {
      if (value.producer != no_node) fail(graph, "value %" + value.name + " is a constant with a producer");
      if (value.dtype != value.constant.dtype()) fail(graph, "value %" + value.name + " is a constant of another type");
      defined[id] = true;
    }
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const Node& node = graph.nodes[at];
    if (!node.alive) continue;
    const std::string where = "node " + node.op + " \"" + node.label() + "\"";
    for (ValueId id : node.inputs) {
      if (id == no_value) continue;
      check_use(graph, defined, id, where);
      users[id].push_back(static_cast<NodeId>(at));
    }
    bool any = false;
    for (ValueId id : node.outputs) {
      if (id == no_value) continue;
      any = true;
      check_id(graph, id, where);
      if (defined[id]) fail(graph, where + " defines " + of(graph, id) + " a second time");
      if (graph.value(id).producer != static_cast<NodeId>(at)) fail(graph, of(graph, id) + " has a wrong producer");
      defined[id] = true;
    }
    if (!any) fail(graph, where + " has no output");
    for (const auto& [key, attribute] : node.attributes)
      if (const auto* inner = std::get_if<GraphRef>(&attribute)) {
        if (!*inner) fail(graph, where + " has an empty subgraph " + key);
        verify(**inner);
      }
  }
  for (size_t id = 0; id < graph.values.size(); ++id) {
    std::vector<NodeId> recorded = graph.values[id].users;
    std::sort(recorded.begin(), recorded.end());
    if (recorded != users[id]) fail(graph, "value %" + graph.values[id].name + " has a wrong list of users");
  }
  if (!graph.output_names.empty() && graph.output_names.size() != graph.outputs.size())
    fail(graph, "outputs and their names differ in number");
  for (ValueId id : graph.outputs) check_use(graph, defined, id, "the output list");
}

}  // namespace tenon::ir
