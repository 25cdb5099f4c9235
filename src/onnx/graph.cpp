// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include "onnx/convert.h"
#include "onnx/importer.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

// Symbols of the model's sizes, spelled so that ir::Dim can print and read them.
class Symbols {
 public:
  ir::Dim named(std::string_view text) {
    const auto known = spelled_.find(text);
    if (known != spelled_.end()) return ir::Dim::symbol(known->second);
    const std::string name = fresh(text);
    spelled_.emplace(text, name);
    return ir::Dim::symbol(name);
  }
  ir::Dim unnamed(std::string_view input, size_t axis) {
    return ir::Dim::symbol(fresh(std::string(input) + "_" + std::to_string(axis)));
  }
  void reserve(std::string_view text) { named(text); }

 private:
  std::string fresh(std::string_view text) {
    std::string name;
    for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front()))) name = "_" + name;
    while (!taken_.insert(name).second) name += "_";
    return name;
  }
  std::map<std::string, std::string, std::less<>> spelled_;
  std::unordered_set<std::string> taken_;
};

DType type_of(const ValueProto& value) {
  const TypeProto* type = &value.type;
  while (type->kind == TypeProto::Kind::optional && type->inner) type = type->inner.get();
  if (type->kind == TypeProto::Kind::sequence) return DType::sequence;
  if (type->kind == TypeProto::Kind::other)
    throw Error(Code::unsupported, "maps and sparse tensors are not supported as inputs",
                {.where = "input '" + std::string(value.name) + "'"});
  return type->kind == TypeProto::Kind::tensor && type->element ? element_type(type->element, std::string(value.name))
                                                                : DType::undefined;
}

std::optional<ir::Shape> shape_of(const ValueProto& value, Symbols& symbols) {
  if (value.type.kind != TypeProto::Kind::tensor || !value.type.shape) return std::nullopt;
  if (value.type.shape->size() > Dims::max_rank)
    throw Error(Code::unsupported,
                "a tensor of rank " + std::to_string(value.type.shape->size()) + " is above the limit of 8",
                {.where = "input '" + std::string(value.name) + "'"});
  ir::Shape shape;
  for (const TypeProto::Size& size : *value.type.shape) {
    if (size.value && *size.value >= 0) {
      shape.emplace_back(*size.value);
    } else {
      shape.push_back(size.symbol.empty() ? symbols.unnamed(value.name, shape.size()) : symbols.named(size.symbol));
    }
  }
  return shape;
}

}  // namespace

const Tensor& Job::tensor(const TensorProto& proto) {
  const auto known = tensors.find(&proto);
  return known != tensors.end() ? known->second : tensors.emplace(&proto, decode(proto, source)).first->second;
}

void Job::fail(const std::string& what, const std::string& why) const {
  throw Error(Code::invalid_model, what, {.where = source.file, .why = why});
}

void Job::refuse_attribute(const std::string& what, const std::string& why) const {
  if (!options.lenient)
    throw Error(Code::invalid_model, what,
                {.where = source.file, .why = why, .hint = "--lenient leaves the attribute out"});
  if (options.warn) options.warn(why + "; it is left out");
}

int64_t Scope::opset(std::string_view domain, const std::string& node) const {
  auto found = opsets.find(domain);
  if (found == opsets.end() && (found = job.opsets.find(domain)) == job.opsets.end()) {
    if (!domain.empty()) return 1;
    job.fail("the model does not say which ONNX opset it uses", "node '" + node + "' needs one");
  }
  return found->second;
}

std::string label_of(const NodeProto& node, size_t index) {
  return node.name.empty() ? std::string(node.op) + "_" + std::to_string(index) : std::string(node.name);
}

Arguments resolve(const NodeProto& node, const Scope& scope) {
  Arguments resolved;
  for (const AttributeProto& attribute : node.attributes) {
    const AttributeProto* value = &attribute;
    if (!attribute.reference.empty()) {
      if (!scope.arguments)
        scope.job.fail("an attribute refers to a function's attribute outside a function",
                       std::string(attribute.reference));
      const auto found = scope.arguments->find(attribute.reference);
      if (found == scope.arguments->end()) continue;
      value = found->second;
    }
    if (!resolved.emplace(attribute.name, value).second)
      scope.job.fail("a node has an attribute twice", "node '" + std::string(node.name) + "' (" + std::string(node.op) +
                                                          "), attribute '" + std::string(attribute.name) + "'");
  }
  return resolved;
}

void import_nodes(const std::vector<NodeProto>& nodes, Scope& scope) {
  for (size_t at : ordered(nodes, scope)) {
    const NodeProto& node = nodes[at];
    const std::string label = label_of(node, at);
    refuse_unfolding(++scope.job.nodes, scope.job);
    if (node.op.empty()) scope.job.fail("a node has no operator", "node '" + label + "'");
    if (node.op.find(':') != std::string_view::npos || node.domain.find(':') != std::string_view::npos)
      scope.job.fail("a node's operator has an invalid name", "node '" + label + "': there is a ':' in '" +
                                                                  std::string(node.op) + "' or its domain '" +
                                                                  std::string(node.domain) + "'");
    if (const FunctionProto* function = function_of(node, scope.job)) {
      import_call(node, label, *function, scope);
      continue;
    }
    scope.job.listed.push_back({scope.prefix + label, std::string(node.op), scope.inside});
    NodeImport import(node, scope.prefix + label, scope.opset(node.domain, label), scope);
    const Convert convert = find_conversion(import.op);
    convert ? convert(import) : import.emit();
    import.name_outputs();
  }
}

void import_inputs(const GraphProto& proto, Scope& scope, bool is_main) {
  ir::Graph& graph = scope.graph;
  graph.name = std::string(proto.name);
  for (const ValueProto& value : proto.values) scope.declared[value.name] = &value.type;
  for (const ValueProto& value : proto.outputs) scope.declared[value.name] = &value.type;
  std::unordered_set<std::string_view> constants;
  const auto declare = [&](std::string_view name) {
    if (!constants.insert(name).second)
      scope.job.fail("two values have the same name", "two initializers are named '" + std::string(name) + "'");
  };
  for (const TensorProto& tensor : proto.initializers) declare(tensor.name);
  for (const auto& [name, sparse] : proto.sparse_initializers) declare(name);
  Symbols symbols;
  for (const ValueProto& input : proto.inputs)
    if (input.type.shape)
      for (const TypeProto::Size& size : *input.type.shape)
        if (!size.symbol.empty()) symbols.reserve(size.symbol);
  for (const ValueProto& input : proto.inputs) {
    // An initializer that is listed as an input is a default nobody overrides here.
    if (constants.count(input.name)) {
      if (!is_main)
        scope.job.fail("two values have the same name",
                       std::string("'").append(input.name).append("' is an input and an initializer of a subgraph"));
      continue;
    }
    if (scope.names.count(input.name))
      scope.job.fail("two values have the same name", "two inputs are named '" + std::string(input.name) + "'");
    const DType type = type_of(input);
    if (is_main && type == DType::undefined)
      scope.job.fail("an input has no element type", "input '" + std::string(input.name) + "'");
    const ir::ValueId id =
        graph.add_value(std::string(input.name), type, is_main ? shape_of(input, symbols) : std::nullopt);
    scope.names[input.name] = id;
    scope.types[id] = &input.type;
    graph.inputs.push_back(id);
  }
  for (const TensorProto& tensor : proto.initializers)
    scope.names[tensor.name] = graph.add_constant(std::string(tensor.name), scope.job.tensor(tensor));
  for (const auto& [name, sparse] : proto.sparse_initializers)
    scope.names[name] = graph.add_constant(std::string(name), decode(sparse, scope.job.source));
}

void import_body(const GraphProto& proto, Scope& scope) {
  import_nodes(proto.nodes, scope);
  for (const ValueProto& output : proto.outputs) {
    const auto found = scope.names.find(output.name);
    if (found == scope.names.end() || found->second == ir::no_value) {
      if (!scope.job.missing.empty()) continue;  // the node that makes it may be one of these
      scope.job.fail("no node gives the output", "output '" + std::string(output.name) + "'");
    }
    scope.graph.outputs.push_back(found->second);
    scope.graph.output_names.emplace_back(output.name);
  }
}

}  // namespace tenon::onnx
