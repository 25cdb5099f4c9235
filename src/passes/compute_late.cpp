// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Bytes of a value, unknown sizes counted as 64.
double bytes_of(const ir::Value& value) {
  if (!value.shape) return 0;
  auto bytes = static_cast<double>(std::max<size_t>(1, size_of(value.dtype)));
  for (const ir::Dim& dim : *value.shape) bytes *= dim.is_constant() ? static_cast<double>(dim.value()) : 64.0;
  return bytes;
}

/// The nodes of an ordered graph, from the last to the first: each is put before the first that reads it, or stays.
class LateOrder {
 public:
  explicit LateOrder(const ir::Graph& graph) : graph_(graph), place_(graph.nodes.size()) {}

  /// The new order; empty where it is the one that was.
  std::vector<ir::NodeId> run() {
    bool changed = false;
    for (auto id = static_cast<ir::NodeId>(graph_.nodes.size()); id-- > 0;) {
      const ir::NodeId reader = first_reader(id);
      const bool moves = reader != ir::no_node && reader != backward_.back() && saves(id, reader);
      changed |= moves;
      size_t at = moves ? place_[reader] + 1 : backward_.size();
      backward_.insert(backward_.begin() + static_cast<std::ptrdiff_t>(at), id);
      for (; at < backward_.size(); ++at) place_[backward_[at]] = at;
    }
    return changed ? std::vector<ir::NodeId>(backward_.rbegin(), backward_.rend()) : std::vector<ir::NodeId>();
  }

 private:
  ir::NodeId first_reader(ir::NodeId id) const {
    ir::NodeId first = ir::no_node;
    for (const ir::ValueId output : graph_.node(id).outputs)
      for (const ir::NodeId user : output == ir::no_value ? std::vector<ir::NodeId>() : graph_.value(output).users)
        if (first == ir::no_node || place_[user] > place_[first]) first = user;
    return first;
  }

  /// Of the nodes that read one value, those whose own results are read only behind all of them: they share its cost.
  double waiting(const std::vector<ir::NodeId>& users) const {
    const ir::NodeId last = *std::max_element(users.begin(), users.end());
    return static_cast<double>(std::count_if(users.begin(), users.end(), [&](ir::NodeId user) {
      const std::vector<ir::ValueId>& outputs = graph_.node(user).outputs;
      return std::all_of(outputs.begin(), outputs.end(), [&](ir::ValueId output) {
        if (output == ir::no_value) return true;
        const std::vector<ir::NodeId>& readers = graph_.value(output).users;
        return std::all_of(readers.begin(), readers.end(), [&](ir::NodeId reader) { return reader > last; });
      });
    }));
  }

  /// Whether less is kept between here and the reader by what the node reads than by what it gives.
  bool saves(ir::NodeId id, ir::NodeId reader) const {
    const ir::Node& node = graph_.node(id);
    if (is_random(node)) return false;
    double kept = 0, given = 0;
    for (const ir::ValueId output : node.outputs)
      if (output != ir::no_value) given += bytes_of(graph_.value(output));
    for (const ir::ValueId input : node.inputs) {
      if (input == ir::no_value || graph_.constant(input) || !graph_.producer(input) || graph_.is_output(input))
        continue;
      const std::vector<ir::NodeId>& users = graph_.value(input).users;
      const bool stays = std::any_of(users.begin(), users.end(), [&](ir::NodeId user) {
        return user != id && user > id && place_[user] <= place_[reader];
      });
      if (!stays) kept += bytes_of(graph_.value(input)) / std::max(1., waiting(users));
    }
    return kept < given || (kept == given && ops::has_trait(node.op, ops::Trait::view));
  }

  const ir::Graph& graph_;
  std::vector<ir::NodeId> backward_;
  std::vector<size_t> place_;  // in it
};

/// Puts all nodes in this order.
void reorder(ir::Graph& graph, const std::vector<ir::NodeId>& order) {
  std::vector<ir::NodeId> renamed(graph.nodes.size());
  std::vector<ir::Node> ordered;
  for (const ir::NodeId id : order) {
    renamed[id] = static_cast<ir::NodeId>(ordered.size());
    ordered.push_back(std::move(graph.nodes[id]));
  }
  graph.nodes = std::move(ordered);
  for (ir::Value& value : graph.values) {
    if (value.producer != ir::no_node) value.producer = renamed[value.producer];
    for (ir::NodeId& user : value.users) user = renamed[user];
  }
}

}  // namespace

bool compute_late(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = LateOrder(graph).run();
  if (!order.empty()) reorder(graph, order);
  return !order.empty();
}

}  // namespace tenon::passes
