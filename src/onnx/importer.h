// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/import.h"
#include "onnx/model.h"
#include "onnx/tensor.h"

/// What the parts of the importer share.
namespace tenon::onnx {

/// An op nobody can run, and where it stands.
struct Missing {
  size_t count = 0;
  std::vector<std::string> nodes;  // the first few
  std::set<std::string> reasons;
};

/// The state of one import.
struct Job {
  Source source;
  ImportOptions options;
  Opsets opsets;
  std::map<std::string, const FunctionProto*> functions;  // by "domain:name:overload"
  std::vector<std::string> calls;                         // functions being inlined
  std::map<std::string, Missing> missing;
  std::unordered_map<const TensorProto*, Tensor> tensors;
  std::unordered_map<const GraphProto*, std::vector<std::string_view>> free;
  size_t nodes = 0;
  std::vector<Listed> listed;
  const ir::Graph* main = nullptr;  // the graph of the model, whose types may be inferred on the way
  ir::NodeId inferred = 0;          // of its nodes, how many were

  /// Decodes once, however often a function body is inlined.
  const Tensor& tensor(const TensorProto& proto);
  [[noreturn]] void fail(const std::string& what, const std::string& why) const;
  /// Of an attribute that is not there: throws Error(invalid_model), or warns where the import is lenient.
  void refuse_attribute(const std::string& what, const std::string& why) const;
};

using Arguments = std::map<std::string_view, const AttributeProto*>;

/// A graph or a function body: names, and what they stand for.
struct Scope {
  Job& job;
  ir::Graph& graph;
  const Opsets& opsets;
  std::string prefix;                    // before the names of an inlined function
  const Arguments* arguments = nullptr;  // attributes of the function call
  std::unordered_map<std::string_view, ir::ValueId> names;
  std::unordered_map<std::string_view, const TypeProto*> declared;  // value_info
  std::unordered_map<ir::ValueId, const TypeProto*> types;
  std::string inside = {};  // the node whose subgraph this is

  /// The opset that `domain` has here.
  int64_t opset(std::string_view domain, const std::string& node) const;
};

/// Indices of `nodes` so that producers come first; the file's order where it is one already.
/// Throws Error(invalid_model) for a value made twice and for a cycle, which it names.
std::vector<size_t> ordered(const std::vector<NodeProto>& nodes, Scope& scope);
std::string label_of(const NodeProto& node, size_t index);
/// The attributes of a node, with references to function attributes replaced.
Arguments resolve(const NodeProto& node, const Scope& scope);
/// Names that a graph reads and does not make, in order of first use.
const std::vector<std::string_view>& free_names(const GraphProto& graph, Job& job);

void import_nodes(const std::vector<NodeProto>& nodes, Scope& scope);
/// Inlines a local function. Throws Error(invalid_model) naming the functions of a recursion.
void import_call(const NodeProto& node, const std::string& label, const FunctionProto& function, Scope& scope);
const FunctionProto* function_of(const NodeProto& node, const Job& job);
/// Throws Error(resource) where that many nodes, or the graph with its calls inlined, are above the limit.
void refuse_unfolding(size_t nodes, const Job& job);
void refuse_unfolding(const GraphProto& graph, const Job& job);
/// Adds the inputs and initializers of the message to `scope.graph`. Only the main graph's inputs carry shapes.
void import_inputs(const GraphProto& proto, Scope& scope, bool is_main);
/// Adds its nodes and outputs.
void import_body(const GraphProto& proto, Scope& scope);
/// Imports the graph attributes of a node as closed graphs; appends the outer values they read to `inputs` and sets
/// "captures".
void import_subgraphs(const Arguments& arguments, const std::string& label, Scope& scope,
                      std::vector<ir::ValueId>& inputs, ir::Attributes& attributes);

}  // namespace tenon::onnx
