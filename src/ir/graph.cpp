// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <tenon/error.h>

#include <algorithm>
#include <queue>

#include "base/check.h"

namespace tenon::ir {

std::string Graph::unique(const std::string& name) {
  const std::string base = name.empty() ? "v" + std::to_string(values.size()) : name;
  if (!by_name_.count(base)) return base;
  for (size_t suffix = values.size();; ++suffix) {
    const std::string candidate = base + "." + std::to_string(suffix);
    if (!by_name_.count(candidate)) return candidate;
  }
}

ValueId Graph::add_value(const std::string& name, DType dtype, std::optional<Shape> shape) {
  Value value;
  value.name = unique(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  const ValueId id = static_cast<ValueId>(values.size());
  by_name_[value.name] = id;
  values.push_back(std::move(value));
  return id;
}

ValueId Graph::add_constant(const std::string& name, Tensor tensor) {
  std::optional<Shape> shape;
  if (tensor.dtype() != DType::sequence) shape = Shape(tensor.dims().begin(), tensor.dims().end());
  const ValueId id = add_value(name, tensor.dtype(), std::move(shape));
  values[id].constant = std::move(tensor);
  return id;
}

NodeId Graph::add_node(OpId op, std::vector<ValueId> node_inputs, std::vector<ValueId> node_outputs,
                       Attributes attributes, std::vector<std::string> origins) {
  const NodeId id = static_cast<NodeId>(nodes.size());
  for (ValueId input : node_inputs)
    if (input != no_value) values[input].users.push_back(id);
  for (ValueId output : node_outputs)
    if (output != no_value) {
      TENON_CHECK(values[output].producer == no_node, values[output].name);
      values[output].producer = id;
    }
  nodes.push_back(
      {std::move(op), std::move(node_inputs), std::move(node_outputs), std::move(attributes), std::move(origins)});
  return id;
}

ValueId Graph::apply(const OpId& op, std::vector<ValueId> node_inputs, Attributes attributes,
                     std::vector<std::string> origins, const std::string& value_name) {
  const ValueId output = add_value(value_name);
  add_node(op, std::move(node_inputs), {output}, std::move(attributes), std::move(origins));
  return output;
}

namespace {
void drop_user(Value& value, NodeId node) {
  const auto found = std::find(value.users.begin(), value.users.end(), node);
  if (found != value.users.end()) value.users.erase(found);
}
}  // namespace

void Graph::set_input(NodeId id, size_t slot, ValueId value) {
  ValueId& input = nodes[id].inputs[slot];
  if (input != no_value) drop_user(values[input], id);
  input = value;
  if (value != no_value) values[value].users.push_back(id);
}

void Graph::add_input(NodeId id, ValueId value) {
  nodes[id].inputs.push_back(value);
  if (value != no_value) values[value].users.push_back(id);
}

void Graph::set_inputs(NodeId id, std::vector<ValueId> inputs_now) {
  for (ValueId input : nodes[id].inputs)
    if (input != no_value) drop_user(values[input], id);
  nodes[id].inputs = std::move(inputs_now);
  for (ValueId input : nodes[id].inputs)
    if (input != no_value) values[input].users.push_back(id);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<NodeId> users;
  users.swap(values[from].users);
  for (NodeId user : users)
    for (ValueId& input : nodes[user].inputs)
      if (input == from) {
        input = to;
        values[to].users.push_back(user);
      }
  for (ValueId& output : outputs)
    if (output == from) output = to;
}

void Graph::remove(NodeId id) {
  set_inputs(id, {});
  for (ValueId output : nodes[id].outputs)
    if (output != no_value) values[output].producer = no_node;
  nodes[id].outputs.clear();
  nodes[id].alive = false;
}

bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }

NodeId Graph::only_user(ValueId id) const {
  if (id == no_value) return no_node;
  return values[id].users.size() == 1 && !is_output(id) ? values[id].users.front() : no_node;
}

void Graph::remove_unneeded() {
  std::vector<char> needed(nodes.size(), 0);
  std::vector<NodeId> stack;
  const auto need = [&](ValueId value) {
    if (value == no_value) return;
    const NodeId producer = values[value].producer;
    if (producer != no_node && !needed[producer] && !values[value].is_constant()) {
      needed[producer] = 1;
      stack.push_back(producer);
    }
  };
  for (ValueId output : outputs) need(output);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (ValueId input : nodes[id].inputs) need(input);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(nodes.size()); ++id)
    if (nodes[id].alive && !needed[id]) remove(id);
}

std::vector<NodeId> Graph::in_order() const {
  std::vector<int> missing(nodes.size(), 0);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  size_t alive = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes.size()); ++id) {
    if (!nodes[id].alive) continue;
    ++alive;
    for (ValueId input : nodes[id].inputs)
      if (input != no_value && values[input].producer != no_node) ++missing[id];
    if (missing[id] == 0) ready.push(id);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (ValueId output : nodes[id].outputs)
      if (output != no_value)
        for (NodeId user : values[output].users)
          if (--missing[user] == 0) ready.push(user);
  }
  if (order.size() != alive) {
    std::string names;
    size_t named = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(nodes.size()) && named < 8; ++id)
      if (nodes[id].alive && missing[id] > 0) names += (named++ ? ", " : "") + nodes[id].label();
    throw Error(Code::invalid_model, "the graph has a cycle", {.where = "nodes " + names});
  }

  return order;
}

void Graph::tidy() {
  remove_unneeded();
  const std::vector<NodeId> order = in_order();
  // Compact: values in use, in order of appearance.
  std::vector<ValueId> renamed(values.size(), no_value);
  std::vector<Value> kept;
  const auto keep = [&](ValueId& id) {
    if (id == no_value) return;
    if (renamed[id] == no_value) {
      renamed[id] = static_cast<ValueId>(kept.size());
      kept.push_back(std::move(values[id]));
      kept.back().producer = no_node;
      kept.back().users.clear();
    }
    id = renamed[id];
  };
  std::vector<Node> ordered;
  for (ValueId& input : inputs) keep(input);
  for (NodeId id : order) {
    for (ValueId& input : nodes[id].inputs) keep(input);
    for (ValueId& output : nodes[id].outputs) keep(output);
    ordered.push_back(std::move(nodes[id]));
  }
  for (ValueId& output : outputs) keep(output);
  nodes = std::move(ordered);
  values = std::move(kept);
  by_name_.clear();
  for (size_t id = 0; id < values.size(); ++id) by_name_[values[id].name] = static_cast<ValueId>(id);
  for (size_t id = 0; id < nodes.size(); ++id) {
    for (ValueId input : nodes[id].inputs)
      if (input != no_value) values[input].users.push_back(static_cast<NodeId>(id));
    for (ValueId output : nodes[id].outputs)
      if (output != no_value) values[output].producer = static_cast<NodeId>(id);
  }
}

}  // namespace tenon::ir
