// SPDX-License-Identifier: Apache-2.0
#include "quant/recipe.h"

#include "quant/structure.h"

namespace tenon::quant {

Recipe without(const ir::Graph& graph, const Recipe& recipe, const std::map<std::string, std::string>& reasons) {
  Reasons keep(graph.nodes.size());
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const ir::Node& node = graph.nodes[at];
    if (!node.alive || node.outputs.empty()) continue;
    const std::string& name = result_name(graph, node);
    if (recipe.pinned.count(name)) keep[at] = in_int8;
    else if (const auto reason = reasons.find(name); reason != reasons.end()) keep[at] = reason->second;
    else if (const auto kept = recipe.kept.find(name); kept != recipe.kept.end()) keep[at] = kept->second;
    else if (role_of(graph, node) == Role::anchor)
      keep[at] = recipe.anchors.count(name) ? while_it_holds : "the recipe leaves it out";
  }
  const Structure structure = structure_of(graph, keep);
  Recipe result;
  result.error = recipe.error;
  result.pinned = recipe.pinned;
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    if (graph.nodes[at].outputs.empty()) continue;
    const std::string& name = result_name(graph, graph.nodes[at]);
    if (!structure.reasons[at].empty()) result.kept[name] = structure.reasons[at];
    if (const auto anchor = recipe.anchors.find(name); anchor != recipe.anchors.end() && structure.integer[at])
      result.anchors.insert(*anchor);
  }
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (const auto value = recipe.values.find(graph.values[id].name);
        value != recipe.values.end() && structure.group[id] >= 0) {
      result.values.insert(*value);
      if (const auto factors = recipe.factors.find(value->first); factors != recipe.factors.end())
        result.factors.insert(*factors);
    }
  return result;
}

}  // namespace tenon::quant
