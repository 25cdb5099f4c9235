// SPDX-License-Identifier: Apache-2.0
#include "quant/structure.h"

#include <algorithm>
#include <numeric>

#include "ops/op.h"

namespace tenon::quant {
namespace {

bool is_activation(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::no_value && !graph.value(id).is_constant() && graph.value(id).dtype == DType::f32;
}

bool is_anchor(const ir::Graph& graph, const ir::Node& node) {
  if (!ops::has_trait(node.op, ops::Trait::integer_form) || node.inputs.size() < 2) return false;
  if (!is_activation(graph, node.inputs[0])) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (!weights || weights->dtype() != DType::f32 || weights->elements() == 0) return false;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value && !graph.constant(node.inputs[2])) return false;
  if (is_convolution(node)) return weights->dims().rank() >= 3;
  if (ops::has_trait(node.op, ops::Trait::general_product) &&
      (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1))
    return false;
  return weights->dims().rank() == 2;
}

struct Finder {
  const ir::Graph& graph;
  const Reasons& keep;
  Structure result;
  std::vector<Role> roles;
  std::vector<char> wanted;

  Finder(const ir::Graph& g, const Reasons& k) : graph(g), keep(k) {
    result.integer.assign(graph.nodes.size(), 0);
    result.reasons.resize(graph.nodes.size());
    result.group.assign(graph.values.size(), -1);
    result.source.assign(graph.values.size(), 0);
    wanted.assign(graph.values.size(), 0);
    for (const ir::Node& node : graph.nodes) roles.push_back(role_of(graph, node));
  }

  /// Whether an anchor lies behind each node; nodes are in order.
  std::vector<char> followed() const {
    std::vector<char> found(graph.nodes.size(), 0);
    for (size_t at = graph.nodes.size(); at-- > 0;)
      for (const ir::ValueId out : graph.nodes[at].outputs) {
        if (out == ir::no_value) continue;
        for (const ir::NodeId user : graph.value(out).users)
          found[at] |= found[user] | (roles[user] == Role::anchor && !from_softmax(graph.node(user)));
      }
    return found;
  }

  bool from_softmax(const ir::Node& node) const {
    const ir::Node* at = graph.producer(node.inputs[0]);
    while (at && role_of(graph, *at) == Role::carries) at = graph.producer(at->inputs[0]);
    return at && ops::has_trait(at->op, ops::Trait::softmax);
  }

  void place() {
    const std::vector<char> has_follower = followed();
    for (size_t at = 0; at < graph.nodes.size(); ++at) {
      const ir::Node& node = graph.nodes[at];
      if (roles[at] != Role::anchor) continue;
      const std::string activation = node.text("activation", "");
      std::string& reason = result.reasons[at];
      if (!keep.empty() && (keep[at] == in_int8 || keep[at] == while_it_holds)) reason.clear();
      else if (!keep.empty() && !keep[at].empty()) reason = keep[at];
      else if (from_softmax(node)) reason = "it is fed by a softmax";
      else if (is_convolution(node) && !has_follower[at] && (activation.empty() || activation == "sigmoid"))
        reason = bare_output;
      result.integer[at] = reason.empty();
    }
  }

  /// Whether an integer node makes the value, or could.
  bool made_by_integers(ir::ValueId id) const {
    const ir::NodeId producer = graph.value(id).producer;
    if (producer == ir::no_node) return false;
    return roles[producer] == Role::anchor ? result.integer[producer] != 0 : roles[producer] != Role::other;
  }

  void want() {
    for (size_t at = graph.nodes.size(); at-- > 0;) {
      const ir::Node& node = graph.nodes[at];
      bool out_wanted = false;
      for (const ir::ValueId out : node.outputs) out_wanted |= out != ir::no_value && wanted[out];
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        const ir::ValueId in = node.inputs[slot];
        if (!is_activation(graph, in)) continue;
        // What a product adds stays a number, as the sum of a transformer's layers.
        const bool read_as_bytes = slot == 0 || (slot == 3 && is_convolution(node));
        if (roles[at] == Role::anchor && result.integer[at] && read_as_bytes) wanted[in] = 1;
        if (roles[at] == Role::carries && out_wanted) wanted[in] = 1;
        if (roles[at] == Role::optional && out_wanted && made_by_integers(in)) wanted[in] = 1;
      }
    }
  }

  void join() {
    std::vector<int> parent(graph.values.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](int at) {
      while (parent[at] != at) at = parent[at] = parent[parent[at]];
      return at;
    };
    std::vector<char> carried(graph.values.size(), 0);
    for (size_t at = 0; at < graph.nodes.size(); ++at) {
      const ir::Node& node = graph.nodes[at];
      if (roles[at] != Role::carries) continue;
      for (const ir::ValueId out : node.outputs)
        if (out != ir::no_value && wanted[out])
          for (const ir::ValueId in : node.inputs)
            if (is_activation(graph, in)) parent[root(in)] = root(out), carried[out] = 1;
    }
    std::vector<int> number(graph.values.size(), -1);
    for (size_t id = 0; id < graph.values.size(); ++id) {
      if (!wanted[id]) continue;
      int& group = number[root(static_cast<int>(id))];
      if (group < 0) group = result.groups++;
      result.group[id] = group;
      result.source[id] = !carried[id];
    }
  }
};

}  // namespace

bool is_quantised(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
    const bool stores = ops::has_trait(node.op, ops::Trait::quantises) && !graph.constant(node.inputs[0]);
    return node.alive && (stores || ops::has_trait(node.op, ops::Trait::quantised));
  });
}

Role role_of(const ir::Graph& graph, const ir::Node& node) {
  if (is_anchor(graph, node)) return Role::anchor;
  for (const ir::ValueId out : node.outputs)
    if (out != ir::no_value && graph.value(out).dtype != DType::f32) return Role::other;
  const bool carries = ops::has_trait(node, ops::Trait::same_scale);
  // Constants among the parts are on no grid.
  if (carries && ops::has_trait(node.op, ops::Trait::all_data))
    for (const ir::ValueId in : node.inputs)
      if (!is_activation(graph, in)) return Role::optional;
  if (carries) return Role::carries;
  return ops::has_trait(node.op, ops::Trait::int8) ? Role::optional : Role::other;
}

Structure structure_of(const ir::Graph& graph, const Reasons& keep) {
  Finder finder(graph, keep);
  finder.place();
  finder.want();
  finder.join();
  return std::move(finder.result);
}

}  // namespace tenon::quant
