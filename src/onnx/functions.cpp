// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "base/counted.h"
#include "onnx/importer.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

constexpr size_t max_depth = 64, max_nodes = 2'000'000;

std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
  return std::string(domain) + ":" + std::string(name) + ":" + std::string(overload);
}

bool has_attribute(const FunctionProto& function, std::string_view name) {
  return std::find(function.attributes.begin(), function.attributes.end(), name) != function.attributes.end() ||
         std::any_of(function.defaults.begin(), function.defaults.end(),
                     [&](const AttributeProto& attribute) { return attribute.name == name; });
}

/// Counts the nodes that calls unfold to, each function once. Leaves recursion and depth to import_call.
class Unfolding {
 public:
  explicit Unfolding(const Job& job) : job_(job) {}
  /// At most one more than the limit.
  size_t count(const std::vector<NodeProto>& nodes) {
    size_t sum = 0;
    for (const NodeProto& node : nodes) {
      sum += 1;
      for (const AttributeProto& attribute : node.attributes)
        if (attribute.graph) sum += count(attribute.graph->nodes);
      if (const FunctionProto* function = function_of(node, job_)) sum += count(*function);
      if (sum > max_nodes) return max_nodes + 1;
    }
    return sum;
  }

 private:
  size_t count(const FunctionProto& function) {
    const auto [known, is_new] = counts_.emplace(&function, 0);
    if (!is_new || depth_ == max_depth) return known->second;
    ++depth_;
    const size_t sum = count(function.nodes);
    --depth_;
    return counts_[&function] = sum;
  }

  const Job& job_;
  std::unordered_map<const FunctionProto*, size_t> counts_;
  size_t depth_ = 0;
};

}  // namespace

void refuse_unfolding(size_t nodes, const Job& job) {
  if (nodes > max_nodes)
    throw Error(Code::resource, "the model unfolds to more than 2000000 nodes", {.where = job.source.file});
}

void refuse_unfolding(const GraphProto& graph, const Job& job) {
  refuse_unfolding(Unfolding(job).count(graph.nodes), job);
}

const FunctionProto* function_of(const NodeProto& node, const Job& job) {
  if (job.functions.empty()) return nullptr;
  const auto found = job.functions.find(key_of(node.domain, node.op, node.overload));
  return found == job.functions.end() ? nullptr : found->second;
}

void import_call(const NodeProto& node, const std::string& label, const FunctionProto& function, Scope& scope) {
  Job& job = scope.job;
  const std::string name(function.name);
  const std::string key = key_of(function.domain, function.name, function.overload);
  const auto active = std::find(job.calls.begin(), job.calls.end(), key);
  if (active != job.calls.end()) {
    std::string path;
    for (auto call = active; call != job.calls.end(); ++call) path += job.functions.at(*call)->name, path += " -> ";
    job.fail("a function calls itself", path + name);
  }
  if (job.calls.size() >= max_depth)
    job.fail("functions call each other more than 64 levels deep", "function '" + name + "'");
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    job.fail("a call does not fit its function", "node '" + label + "' has " + counted(node.inputs.size(), "input") +
                                                     " and " + counted(node.outputs.size(), "output") + ", function '" +
                                                     name + "' " + std::to_string(function.inputs.size()) + " and " +
                                                     std::to_string(function.outputs.size()));

  Arguments arguments;
  for (const AttributeProto& attribute : function.defaults) arguments[attribute.name] = &attribute;
  for (const auto& [attribute, value] : resolve(node, scope))
    if (has_attribute(function, attribute)) arguments[attribute] = value;
    else
      job.refuse_attribute(
          "a call has an attribute that its function does not have",
          "node '" + label + "' (function " + name + "): there is no attribute '" + std::string(attribute) + "'");

  Scope body{job, scope.graph, function.opsets, scope.prefix + label + "/", &arguments, {}, {}, {}, scope.inside};
  for (size_t at = 0; at < function.inputs.size(); ++at) {
    ir::ValueId value = ir::no_value;
    if (at < node.inputs.size() && !node.inputs[at].empty()) {
      const auto found = scope.names.find(node.inputs[at]);
      if (found == scope.names.end())
        job.fail("a node reads a value that does not exist",
                 "node '" + label + "' reads '" + std::string(node.inputs[at]) + "'");
      value = found->second;
      const auto declared = scope.types.find(value);
      if (declared != scope.types.end()) body.types[value] = declared->second;
    }
    body.names[function.inputs[at]] = value;
  }
  job.calls.push_back(key);
  import_nodes(function.nodes, body);
  job.calls.pop_back();
  for (size_t at = 0; at < node.outputs.size(); ++at) {
    if (node.outputs[at].empty()) continue;
    const auto found = body.names.find(function.outputs[at]);
    if (found == body.names.end() || found->second == ir::no_value)
      job.fail("no node gives the output",
               "output '" + std::string(function.outputs[at]) + "' of function '" + name + "'");
    scope.names[node.outputs[at]] = found->second;
  }
}

}  // namespace tenon::onnx
