// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/dim.h"
#include "ir/op_id.h"

namespace tenon::ir {

struct Graph;
using GraphRef = std::shared_ptr<Graph>;
using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor, GraphRef>;
using Attributes = std::map<std::string, Attribute>;

using ValueId = int32_t;
using NodeId = int32_t;
constexpr ValueId no_value = -1;  // an optional input that is absent
constexpr NodeId no_node = -1;

/// A tensor in the graph. Its shape is unknown until inference has run; a constant carries its elements.
struct Value {
  std::string name;  // unique in its graph
  DType dtype = DType::undefined;
  std::optional<Shape> shape;
  Tensor constant;                          // empty unless the elements are known
  std::optional<std::vector<Dim>> content;  // symbolic elements of a small integer tensor (shape arithmetic)
  NodeId producer = no_node;                // no_node for inputs and constants
  std::vector<NodeId> users;                // one entry per use
  bool is_constant() const { return static_cast<bool>(constant); }
};

/// One operation. The meaning of inputs and attributes is that of ONNX's newest form, or of src/ops for an internal op.
struct Node {
  OpId op;
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;
  std::vector<std::string> origins;  // names of the ONNX nodes it stands for
  /// Of a fusion group: the nodes it stands for, as a graph on its inputs and outputs. No text form holds them.
  std::shared_ptr<const Graph> members = {};
  bool alive = true;

  bool has(const std::string& name) const { return attributes.count(name) > 0; }
  int64_t integer(const std::string& name, int64_t otherwise) const;
  float real(const std::string& name, float otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> reals(const std::string& name, std::vector<float> otherwise = {}) const;
  GraphRef graph(const std::string& name) const;
  /// The first origin, for messages.
  std::string label() const { return origins.empty() ? op.str() : origins.front(); }
};

/// Nodes over values in single-assignment form. Mutation goes through the methods, which keep producers and users
/// right. Every graph is closed: the outer values a subgraph (of If, Loop, Scan, SequenceMap) reads are the node's last
/// inputs, their number is the attribute "captures", and all subgraphs of the node take all of them, in that order,
/// after their own inputs. Constants of the outer graph are shared with the subgraph instead.
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order where producers come first once ordered() has run
  std::vector<ValueId> inputs, outputs;
  std::map<std::string, std::string> metadata;  // ONNX metadata_props
  std::map<std::string, int64_t> usual;         // what symbols of sizes are in most runs, where a build was told
  std::vector<std::string> output_names;        // names the user sees, parallel to outputs

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }
  Node& node(NodeId id) { return nodes[id]; }
  const Node& node(NodeId id) const { return nodes[id]; }

  /// A new value; `name` is made unique by a suffix where taken, and made up where empty.
  ValueId add_value(const std::string& name, DType dtype = DType::undefined, std::optional<Shape> shape = std::nullopt);
  ValueId add_constant(const std::string& name, Tensor tensor);
  /// Adds a node whose outputs are existing values without a producer.
  NodeId add_node(OpId op, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes = {},
                  std::vector<std::string> origins = {});
  /// Adds a node with one new output named after `name`; returns that output.
  ValueId apply(const OpId& op, std::vector<ValueId> inputs, Attributes attributes, std::vector<std::string> origins,
                const std::string& name = "");
  void set_input(NodeId node, size_t slot, ValueId value);
  void add_input(NodeId node, ValueId value);
  void set_inputs(NodeId node, std::vector<ValueId> values);
  /// Makes every user of `from`, and the graph's outputs, use `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Removes a node; its outputs lose their producer.
  void remove(NodeId node);
  bool is_output(ValueId id) const;
  /// The one node that uses a value which is no graph output; no_node otherwise.
  NodeId only_user(ValueId id) const;
  const Node* producer(ValueId id) const {
    return id == no_value || values[id].producer == no_node ? nullptr : &nodes[values[id].producer];
  }
  const Tensor* constant(ValueId id) const {
    return id == no_value || !values[id].is_constant() ? nullptr : &values[id].constant;
  }
  /// Drops removed nodes and unused values and puts nodes in a stable topological order. Ids change.
  /// Throws Error(invalid_model) naming the nodes of a cycle.
  void tidy();

 private:
  /// Removes nodes that nothing uses that reaches an output.
  void remove_unneeded();
  /// A stable topological order: of the nodes that are ready, the earliest goes first.
  std::vector<NodeId> in_order() const;

  std::map<std::string, ValueId> by_name_;
  std::string unique(const std::string& name);
};

/// Checks single assignment, order, producers, users and arity; throws std::logic_error naming the value (a fault of
/// ours).
void verify(const Graph& graph);

/// The readable form used by inspect, golden tests and the engine file. Constants of more than `inline_limit` elements
/// are printed as references "@k" into `pool` (appended to) when it is given, else elided.
std::string print(const Graph& graph, std::vector<Tensor>* pool = nullptr, size_t inline_limit = 16);
/// Reads that form back. Throws Error(invalid_model) naming the line.
Graph parse(std::string_view text, const std::vector<Tensor>& pool = {});

}  // namespace tenon::ir
