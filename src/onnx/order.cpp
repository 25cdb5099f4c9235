// SPDX-License-Identifier: Apache-2.0
#include <queue>

#include "base/counted.h"
#include "onnx/importer.h"

namespace tenon::onnx {
namespace {

using Producers = std::unordered_map<std::string_view, size_t>;

template <class Visit>
void each_read(const NodeProto& node, Scope& scope, const Visit& visit) {
  for (std::string_view name : node.inputs)
    if (!name.empty()) visit(name);
  for (const auto& [name, attribute] : resolve(node, scope))
    if (attribute->type == AttributeProto::Type::graph)
      for (std::string_view read : free_names(*attribute->graph, scope.job)) visit(read);
}

[[noreturn]] void fail_cycle(const std::vector<NodeProto>& nodes, const std::vector<size_t>& waits,
                             const Producers& producers, Scope& scope) {
  size_t at = 0;
  while (waits[at] == 0) ++at;
  // Every node that waits reads from a node that waits: walking backwards ends in a cycle.
  std::vector<size_t> path;
  std::vector<bool> seen(nodes.size());
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    size_t before = at;
    each_read(nodes[at], scope, [&](std::string_view name) {
      const auto found = producers.find(name);
      if (found != producers.end() && waits[found->second] > 0) before = found->second;
    });
    at = before;
  }
  std::string names;
  size_t shown = 0;
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    if (++shown <= 10) names += (names.empty() ? "'" : " -> '") + label_of(nodes[*step], *step) + "'";
    if (*step == at) break;
  }
  scope.job.fail("the graph has a cycle", names + (shown > 10 ? " -> ... (" + counted(shown, "node") + ")" : ""));
}

}  // namespace

std::vector<size_t> ordered(const std::vector<NodeProto>& nodes, Scope& scope) {
  Producers producers;
  for (size_t at = 0; at < nodes.size(); ++at) {
    for (std::string_view name : nodes[at].outputs) {
      if (name.empty()) continue;
      const auto [other, fresh] = producers.emplace(name, at);
      const std::string who = "node '" + label_of(nodes[at], at) + "' gives '" + std::string(name) + "', which ";
      if (!fresh)
        scope.job.fail("two values have the same name",
                       who + "node '" + label_of(nodes[other->second], other->second) + "' gives, too");
      if (scope.names.count(name))
        scope.job.fail("two values have the same name", who + "is an input or an initializer");
    }
  }
  std::vector<size_t> waits(nodes.size());
  std::vector<std::vector<size_t>> users(nodes.size());
  bool in_order = true;
  for (size_t at = 0; at < nodes.size(); ++at)
    each_read(nodes[at], scope, [&](std::string_view name) {
      const auto found = producers.find(name);
      if (found == producers.end()) return;
      ++waits[at];
      users[found->second].push_back(at);
      in_order = in_order && found->second < at;
    });
  std::vector<size_t> order;
  order.reserve(nodes.size());
  if (in_order) {
    for (size_t at = 0; at < nodes.size(); ++at) order.push_back(at);
    return order;
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t at = 0; at < nodes.size(); ++at)
    if (waits[at] == 0) ready.push(at);
  while (!ready.empty()) {
    const size_t at = ready.top();
    ready.pop();
    order.push_back(at);
    for (size_t user : users[at])
      if (--waits[user] == 0) ready.push(user);
  }
  if (order.size() != nodes.size()) fail_cycle(nodes, waits, producers, scope);
  return order;
}

}  // namespace tenon::onnx
