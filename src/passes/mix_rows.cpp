// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

// What a byte that is not moved is worth in multiply-adds: those that a product of two values loses to one by constant
// weights, which has the faster kernels.
constexpr int64_t products_of_byte = 190;
constexpr int64_t bytes_of_move = 4;  // of an element in 16 bits, read and written

/// Multiply-adds of a product by a constant matrix; 0 of other nodes.
int64_t work_of(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* weights = node.op == "MatMul" && node.inputs.size() > 1 ? graph.constant(node.inputs[1]) : nullptr;
  const ir::Shape* shape = weights ? shape_of(graph, node.outputs[0]) : nullptr;
  if (!shape || weights->dims().rank() != 2) return 0;
  int64_t work = weights->dims()[0];
  for (const ir::Dim& dim : *shape) work *= dim.is_constant() ? dim.value() : 1;
  return work;
}

/// Nodes between transposes of the last two axes that could as well work on what lies before them: elementwise nodes,
/// and products x W by constant matrices, which become W' x'.
class Region {
 public:
  Region(ir::Graph& graph, ir::NodeId seed) : graph_(graph), rank_(graph.node(seed).outputs.size()) {
    rank_ = rank_of(graph, graph.node(seed).outputs[0]).value_or(0);
    std::vector<ir::NodeId> waiting{seed};
    while (!waiting.empty()) {
      const ir::NodeId id = waiting.back();
      waiting.pop_back();
      if (!fits(id) || !nodes_.insert(id).second) continue;
      for (const ir::ValueId input : graph.node(id).inputs)
        if (input != ir::no_value && graph.value(input).producer != ir::no_node)
          waiting.push_back(graph.value(input).producer);
      for (const ir::NodeId user : graph.value(graph.node(id).outputs[0]).users) waiting.push_back(user);
    }
  }
  const std::set<ir::NodeId>& nodes() const { return nodes_; }

  /// Whether the transposes that go are worth more than those that come and what products lose.
  bool pays() const {
    int64_t saved = 0, products = 0;
    std::set<ir::ValueId> read;
    for (const ir::NodeId id : nodes_) {
      const ir::Node& node = graph_.node(id);
      products += work_of(graph_, node);
      for (const ir::ValueId input : node.inputs)
        if (is_outer(input) && read.insert(input).second) saved += saved_before(input);
      saved += saved_behind(node.outputs[0]);
    }
    return products > 0 && products < saved * bytes_of_move * products_of_byte;
  }

  void flip() {
    for (const ir::NodeId id : nodes_) flipped(graph_.node(id).outputs[0]);
    for (const ir::NodeId id : nodes_) {
      const ir::Node node = graph_.node(id);
      const ir::ValueId output = node.outputs[0];
      const std::vector<ir::NodeId> users = graph_.value(output).users;
      for (const ir::NodeId user : std::set<ir::NodeId>(users.begin(), users.end())) {
        if (nodes_.contains(user) || !is_flip(&graph_.node(user))) continue;
        graph_.replace_uses(graph_.node(user).outputs[0], made_.at(output));
        graph_.remove(user);
      }
      if (!is_read_outside(output)) continue;
      graph_.replace_uses(output, turned(made_.at(output), graph_.value(output).name, node.origins));
    }
    for (const ir::NodeId id : nodes_) graph_.remove(id);
  }

 private:
  /// Elements of a matrix, or of a batch of known size.
  int64_t moved(ir::ValueId value) const {
    int64_t count = 1;
    for (const ir::Dim& dim : *shape_of(graph_, value)) count *= dim.is_constant() ? dim.value() : 1;
    return count;
  }
  bool is_matrices(ir::ValueId value) const {
    const ir::Shape* shape = shape_of(graph_, value);
    return shape && shape->size() == rank_ && rank_ >= 3 && shape->back().is_constant() &&
           (*shape)[rank_ - 2].is_constant();
  }
  bool fits(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.outputs.size() != 1 || !is_matrices(node.outputs[0]) || has_subgraph(node)) return false;
    const auto is_operand = [&](ir::ValueId input) {
      return input == ir::no_value || graph_.value(input).is_constant() || is_matrices(input);
    };
    if (is_elementwise(node)) return std::all_of(node.inputs.begin(), node.inputs.end(), is_operand);
    if (node.op != "MatMul" || node.has("slopes") || graph_.value(node.inputs[0]).dtype != DType::f32) return false;
    const Tensor* weights = graph_.constant(node.inputs[1]);
    if (!weights || weights->dtype() != DType::f32 || weights->dims().rank() != 2 || !is_matrices(node.inputs[0]))
      return false;
    const bool bias = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
    const Tensor* row = bias ? graph_.constant(node.inputs[2]) : nullptr;
    if (bias && !(row && row->dims().rank() == 1)) return false;
    return node.inputs.size() < 4 || node.inputs[3] == ir::no_value || is_matrices(node.inputs[3]);
  }
  bool is_flip(const ir::Node* node) const {
    return node && node->op == "Transpose" && node->integers("perm") == swapped(rank_);
  }
  bool is_outer(ir::ValueId value) const {
    return value != ir::no_value && !graph_.value(value).is_constant() &&
           !nodes_.contains(graph_.value(value).producer);
  }
  bool is_read_outside(ir::ValueId value) const {
    if (std::find(graph_.outputs.begin(), graph_.outputs.end(), value) != graph_.outputs.end()) return true;
    const auto& users = graph_.value(value).users;
    return std::any_of(users.begin(), users.end(), [&](ir::NodeId user) { return !nodes_.contains(user); });
  }
  /// Elements of the transpose before an operand that goes, or comes.
  int64_t saved_before(ir::ValueId value) const {
    if (!is_flip(graph_.producer(value))) return -moved(value);
    return is_read_outside(value) ? 0 : moved(value);
  }
  /// Elements of the transposes behind a result that go, less those of the one that comes.
  int64_t saved_behind(ir::ValueId value) const {
    const std::vector<ir::ValueId>& outputs = graph_.outputs;
    bool comes = std::find(outputs.begin(), outputs.end(), value) != outputs.end(), goes = false;
    for (const ir::NodeId user : graph_.value(value).users) {
      if (nodes_.contains(user)) continue;
      (is_flip(&graph_.node(user)) ? goes : comes) = true;
    }
    return (goes ? moved(value) : 0) - (comes ? moved(value) : 0);
  }

  ir::ValueId turned(ir::ValueId value, const std::string& name, const std::vector<std::string>& origins) {
    const ir::Shape shape = permuted(*shape_of(graph_, value), swapped(rank_));
    const ir::ValueId result = graph_.apply("Transpose", {value}, {{"perm", swapped(rank_)}}, origins, name);
    graph_.value(result).dtype = graph_.value(value).dtype, graph_.value(result).shape = shape;
    return result;
  }
  /// As an operand of an elementwise node.
  ir::ValueId flipped_constant(ir::ValueId value) {
    const Tensor tensor = graph_.value(value).constant;
    const size_t rank = tensor.dims().rank();
    if (tensor.elements() == 1) return value;
    const std::string name = graph_.value(value).name + ".turned";
    if (rank == 1) return graph_.add_constant(name, tensor.reshaped({tensor.elements(), 1}));
    return graph_.add_constant(name, permuted(tensor, swapped(rank)));
  }
  ir::ValueId flipped(ir::ValueId value) {
    if (value == ir::no_value) return value;
    if (const auto known = made_.find(value); known != made_.end()) return known->second;
    const ir::NodeId producer = graph_.value(value).producer;
    const ir::Node* maker = graph_.producer(value);
    ir::ValueId result;
    if (graph_.value(value).is_constant()) result = flipped_constant(value);
    else if (nodes_.contains(producer)) result = flipped_node(producer);
    else if (is_flip(maker)) result = maker->inputs[0];
    else result = turned(value, graph_.value(value).name, maker ? maker->origins : std::vector<std::string>());
    return made_[value] = result;
  }
  ir::ValueId flipped_node(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    std::vector<ir::ValueId> inputs;
    if (node.op == "MatMul") {
      const Tensor weights = *graph_.constant(node.inputs[1]);
      inputs = {graph_.add_constant(graph_.value(node.inputs[1]).name + ".turned", permuted(weights, {1, 0})),
                flipped(node.inputs[0])};
      if (node.inputs.size() > 2) inputs.push_back(flipped(node.inputs[2]));
      if (node.inputs.size() > 3) inputs.push_back(flipped(node.inputs[3]));
    } else {
      for (const ir::ValueId input : node.inputs) inputs.push_back(flipped(input));
    }
    const ir::Shape shape = permuted(*shape_of(graph_, node.outputs[0]), swapped(rank_));
    const DType type = graph_.value(node.outputs[0]).dtype;
    const ir::ValueId result =
        graph_.apply(node.op, inputs, node.attributes, node.origins, graph_.value(node.outputs[0]).name);
    graph_.value(result).dtype = type, graph_.value(result).shape = shape;
    return result;
  }

  ir::Graph& graph_;
  size_t rank_;
  std::set<ir::NodeId> nodes_;
  std::map<ir::ValueId, ir::ValueId> made_;  // what stands for a value, transposed
};

}  // namespace

bool mix_rows(ir::Graph& graph) {
  // Small products first: of two regions on both sides of a transpose, the one with less to lose.
  std::vector<std::pair<int64_t, ir::NodeId>> products;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    if (const int64_t work = work_of(graph, graph.node(id)); work > 0) products.emplace_back(work, id);
  std::sort(products.begin(), products.end());
  bool changed = false;
  std::set<ir::NodeId> seen;
  for (const auto& [work, id] : products) {
    if (seen.contains(id)) continue;
    Region region(graph, id);
    seen.insert(region.nodes().begin(), region.nodes().end());
    if (!region.pays()) continue;
    region.flip();
    changed = true;
  }
  return changed;
}

}  // namespace tenon::passes
