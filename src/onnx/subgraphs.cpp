// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include "base/counted.h"
#include "onnx/importer.h"

namespace tenon::onnx {
namespace {

constexpr int most_depth = 16;  // of nested subgraphs; the text form has as many

/// Counts the subgraphs that a thread is importing.
class Nesting {
 public:
  Nesting() { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  int depth() const { return depth_; }

 private:
  static inline thread_local int depth_ = 0;
};

// Constants are shared with the subgraph instead of passed to it.
bool is_captured(ir::ValueId value, const Scope& outer) {
  return value != ir::no_value && !outer.graph.value(value).is_constant();
}

void capture(const std::vector<std::string_view>& reads, const Scope& outer, Scope& inner) {
  for (std::string_view read : reads) {
    const ir::ValueId from = outer.names.at(read);
    ir::ValueId to = ir::no_value;
    if (is_captured(from, outer)) {
      const ir::Value& value = outer.graph.value(from);
      // What a node makes may have been inferred on the way, for sizes that are not yet chosen.
      const bool is_made = value.producer != ir::no_node;
      to = inner.graph.add_value(std::string(read), is_made ? DType::undefined : value.dtype,
                                 is_made ? std::nullopt : value.shape);
      inner.graph.inputs.push_back(to);
      const auto declared = outer.types.find(from);
      if (declared != outer.types.end()) inner.types[to] = declared->second;
    } else if (from != ir::no_value) {
      to = inner.graph.add_constant(std::string(read), outer.graph.value(from).constant);
    }
    // A name that only another branch reads may be one this graph makes itself.
    inner.names.emplace(read, to);
  }
}

}  // namespace

const std::vector<std::string_view>& free_names(const GraphProto& graph, Job& job) {
  const auto known = job.free.find(&graph);
  if (known != job.free.end()) return known->second;
  std::unordered_set<std::string_view> made, listed;
  std::vector<std::string_view> free;
  for (const ValueProto& input : graph.inputs) made.insert(input.name);
  for (const TensorProto& tensor : graph.initializers) made.insert(tensor.name);
  for (const auto& [name, sparse] : graph.sparse_initializers) made.insert(name);
  for (const NodeProto& node : graph.nodes)
    for (std::string_view name : node.outputs) made.insert(name);
  const auto read = [&](std::string_view name) {
    if (!name.empty() && !made.count(name) && listed.insert(name).second) free.push_back(name);
  };
  // Nesting is bounded by the depth of messages, see Reader::max_depth.
  for (const NodeProto& node : graph.nodes) {
    for (std::string_view name : node.inputs) read(name);
    for (const AttributeProto& attribute : node.attributes)
      if (attribute.graph)
        for (std::string_view name : free_names(*attribute.graph, job)) read(name);
  }
  for (const ValueProto& output : graph.outputs) read(output.name);
  return job.free.emplace(&graph, std::move(free)).first->second;
}

void import_subgraphs(const Arguments& arguments, const std::string& label, Scope& scope,
                      std::vector<ir::ValueId>& inputs, ir::Attributes& attributes) {
  std::vector<std::string_view> reads;
  std::unordered_set<std::string_view> listed;
  bool any = false;
  for (const auto& [name, attribute] : arguments) {
    if (attribute->type != AttributeProto::Type::graph) continue;
    any = true;
    for (std::string_view read : free_names(*attribute->graph, scope.job))
      if (listed.insert(read).second) reads.push_back(read);
  }
  if (!any) return;
  const Nesting nesting;
  if (nesting.depth() > most_depth)
    scope.job.fail("subgraphs are nested deeper than " + counted(most_depth, "level"),
                   "node '" + label + "' has another inside");
  int64_t captured = 0;
  for (std::string_view read : reads) {
    const auto found = scope.names.find(read);
    if (found == scope.names.end())
      scope.job.fail("a node reads a value that does not exist",
                     "a subgraph of node '" + label + "' reads '" + std::string(read) + "'");
    if (!is_captured(found->second, scope)) continue;
    ++captured;
    inputs.push_back(found->second);
  }
  for (const auto& [name, attribute] : arguments) {
    if (attribute->type != AttributeProto::Type::graph) continue;
    auto graph = std::make_shared<ir::Graph>();
    Scope inner{scope.job, *graph, scope.opsets, "", scope.arguments, {}, {}, {}, label};
    import_inputs(*attribute->graph, inner, false);
    capture(reads, scope, inner);
    import_body(*attribute->graph, inner);
    attributes[std::string(name)] = std::move(graph);
  }
  attributes["captures"] = captured;
}

}  // namespace tenon::onnx
