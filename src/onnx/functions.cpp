#include <algorithm>

#include "onnx/importer.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

constexpr size_t max_depth = 64;

std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
  return std::string(domain) + ":" + std::string(name) + ":" + std::string(overload);
}

}  // namespace

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
    job.fail("a call does not fit its function",
             "node '" + label + "' has " + std::to_string(node.inputs.size()) + " inputs and " +
                 std::to_string(node.outputs.size()) + " outputs, function '" + name + "' " +
                 std::to_string(function.inputs.size()) + " and " + std::to_string(function.outputs.size()));

  Arguments arguments;
  for (const AttributeProto& attribute : function.defaults) arguments[attribute.name] = &attribute;
  for (const auto& [attribute, value] : resolve(node, scope)) arguments[attribute] = value;

  Scope body{job, scope.graph, function.opsets, scope.prefix + label + "/", &arguments, {}, {}, {}};
  for (size_t at = 0; at < function.inputs.size(); ++at) {
    ir::ValueId value = ir::no_value;
    if (at < node.inputs.size() && !node.inputs[at].empty()) {
      const auto found = scope.names.find(node.inputs[at]);
      if (found == scope.names.end())
        job.fail("a node reads a value that nothing makes",
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
      job.fail("an output is made by no node",
               "output '" + std::string(function.outputs[at]) + "' of function '" + name + "'");
    scope.names[node.outputs[at]] = found->second;
  }
}

}  // namespace tenon::onnx
