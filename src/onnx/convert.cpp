// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"

#include <algorithm>

#include "base/counted.h"
#include "ops/op.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

std::map<ir::OpId, Convert>& conversions() {
  static std::map<ir::OpId, Convert> table;
  return table;
}

std::map<ir::OpId, ops::AttributeDefs>& former_ops() {
  static std::map<ir::OpId, ops::AttributeDefs> table;
  return table;
}

}  // namespace

const ops::AttributeDefs* attributes_of(const ir::OpId& op) {
  if (const ops::OpDef* found = ops::find(op)) return &found->attributes;
  const auto found = former_ops().find(op);
  return found == former_ops().end() ? nullptr : &found->second;
}

FormerRegistrar::FormerRegistrar(const char* op, ops::AttributeDefs attributes) {
  former_ops()[op] = std::move(attributes);
}

Convert find_conversion(const ir::OpId& op) {
  const auto found = conversions().find(op);
  return found == conversions().end() ? nullptr : found->second;
}

ConvertRegistrar::ConvertRegistrar(std::initializer_list<const char*> ops, Convert convert) {
  for (const char* op : ops) conversions()[op] = convert;
}

namespace {

ir::Attribute attribute_value(const AttributeProto& proto, const std::string& label, Scope& scope) {
  using Type = AttributeProto::Type;
  switch (proto.type) {
    case Type::real: return proto.real;
    case Type::integer: return proto.integer;
    case Type::text: return std::string(proto.text);
    case Type::tensor: return scope.job.tensor(*proto.tensor);
    case Type::sparse: return decode(*proto.sparse, scope.job.source);
    case Type::reals: return proto.reals;
    case Type::integers: return proto.integers;
    case Type::texts: return std::vector<std::string>(proto.texts.begin(), proto.texts.end());
    case Type::type: {
      std::string text, end;
      const TypeProto* type = proto.type_proto.get();
      for (; type && type->inner; type = type->inner.get(), end += ")")
        text += type->kind == TypeProto::Kind::sequence ? "seq(" : "optional(";
      const DType element = type ? element_type(type->element, "attribute of " + label) : DType::undefined;
      return text + "tensor(" + std::string(name(element)) + ")" + end;
    }
    case Type::undefined: return std::vector<int64_t>();  // an empty list that says no type
    default: break;
  }
  scope.job.fail("an attribute has a kind that no op uses",
                 "node '" + label + "', attribute '" + std::string(proto.name) + "'");
}

}  // namespace

NodeImport::NodeImport(const NodeProto& proto, std::string label, int64_t version, Scope& scope)
    : op(proto.domain, proto.op),
      opset(version),
      proto_(proto),
      label_(std::move(label)),
      scope_(scope),
      bound_(proto.outputs.size()) {
  for (std::string_view name : proto.inputs) {
    if (name.empty()) {
      inputs.push_back(ir::no_value);
      continue;
    }
    const auto found = scope.names.find(name);
    if (found == scope.names.end())
      scope.job.fail("a node reads a value that does not exist",
                     "node '" + label_ + "' (" + op + ") reads '" + std::string(name) + "'");
    inputs.push_back(found->second);
  }
  while (!inputs.empty() && inputs.back() == ir::no_value) inputs.pop_back();
  if (proto.domain.empty()) check_count();
  Arguments arguments = resolve(proto, scope);
  for (const auto& [name, attribute] : arguments)
    if (attribute->type != AttributeProto::Type::graph)
      attributes[std::string(name)] = attribute_value(*attribute, label_, scope);
  if (proto.domain.empty() || former_ops().count(op)) check_attributes(arguments);
  if (op == "Loop" && inputs.size() < 2) inputs.resize(2, ir::no_value);
  import_subgraphs(arguments, label_, scope, inputs, attributes);
}

/// Inputs that passes alone give to an op.
void NodeImport::check_count() const {
  const ops::OpDef* known = ops::find(op);
  const int most = known ? known->traits.standard_inputs() : -1;
  if (most >= 0 && inputs.size() > static_cast<size_t>(most))
    fail("it has " + counted(inputs.size(), "input") + "; " + op + " takes " + std::to_string(known->min_inputs) +
         (most > known->min_inputs ? " to " + std::to_string(most) : ""));
}

/// Against the op's definition in the node's opset. What is unknown and tolerated is taken out of `arguments`, too.
void NodeImport::check_attributes(Arguments& arguments) {
  const ops::AttributeDefs* known = attributes_of(op);
  if (!known) return;
  for (auto at = arguments.begin(); at != arguments.end();) {
    const auto& [name, proto] = *at;
    const ops::AttributeDef* attribute = ops::find_attribute(*known, name, opset);
    if (!attribute || attribute->is_internal) {
      refuse(ops::unknown_attribute(*known, name, opset));
      attributes.erase(std::string(name));
      at = arguments.erase(at);
      continue;
    }
    const bool is_graph = proto->type == AttributeProto::Type::graph;
    const ir::Attribute value = is_graph ? ir::Attribute(ir::GraphRef()) : attributes.at(std::string(name));
    const auto* number = std::get_if<int64_t>(&value);
    const char* other = attribute->is_element_type && number ? unsupported_type(*number) : nullptr;
    const std::string fault = other ? "" : ops::fault_of(*attribute, value);
    if (other) unsupported(std::string("element type ") + other);
    if (!fault.empty()) fail(fault);
    ++at;
  }
  for (const ops::AttributeDef& attribute : *known)
    if (attribute.is_required && !attribute.is_internal && attribute.holds_in(opset) &&
        !arguments.count(attribute.name))
      fail("attribute '" + attribute.name + "' is missing");
}

void NodeImport::refuse(const std::string& unknown) {
  scope_.job.refuse_attribute("a node has an attribute that its operator does not have",
                              "node '" + label_ + "' (" + op + ", opset " + std::to_string(opset) + "): " + unknown);
}

namespace {

/// What ONNX gives the op in its newest form, and what the importer itself adds.
void keep_standard(const ir::OpId& op, ir::Attributes& attributes) {
  const ops::OpDef* known = ops::find(op);
  if (!known || !known->checks_attributes) return;
  std::erase_if(attributes, [&](const auto& entry) {
    const ops::AttributeDef* attribute = ops::find_attribute(known->attributes, entry.first, ops::AttributeDef::newest);
    return entry.first != "captures" && (!attribute || attribute->is_internal);
  });
}

}  // namespace

void NodeImport::set_input(size_t at, ir::ValueId value) {
  if (inputs.size() <= at) inputs.resize(at + 1, ir::no_value);
  inputs[at] = value;
}

void NodeImport::emit() {
  if (op.is_internal()) note(op, "its domain is reserved for Tenon itself");
  else if (!scope_.job.options.knows(op)) note(op, "");
  std::vector<ir::ValueId> made;
  for (size_t at = 0; at < outputs(); ++at) {
    const std::string_view name = proto_.outputs[at];
    if (name.empty() || bound_[at]) {
      made.push_back(ir::no_value);
      continue;
    }
    const ir::ValueId id = graph().add_value(scope_.prefix + std::string(name));
    scope_.names[name] = id;
    const auto declared = scope_.declared.find(name);
    if (declared != scope_.declared.end()) scope_.types[id] = declared->second;
    made.push_back(id);
  }
  while (!made.empty() && made.back() == ir::no_value) made.pop_back();
  keep_standard(op, attributes);
  graph().add_node(op, inputs, made, attributes, {label_});
}

void NodeImport::name_outputs() {
  for (size_t at = 0; at < outputs(); ++at) {
    if (!wants(at) || scope_.names.count(proto_.outputs[at])) continue;
    const ir::OpId own(proto_.domain, proto_.op);
    if (scope_.job.missing.empty()) note(own, "output " + std::to_string(at));
    scope_.names[proto_.outputs[at]] = graph().add_value(scope_.prefix + std::string(proto_.outputs[at]));
  }
}

void NodeImport::bind(size_t output, ir::ValueId value) {
  if (!wants(output)) return;
  scope_.names[proto_.outputs[output]] = value;
  bound_[output] = true;
}

ir::ValueId NodeImport::add(const ir::OpId& helper, std::vector<ir::ValueId> values, ir::Attributes with) {
  if (!scope_.job.options.knows(helper)) note(helper, "");
  keep_standard(helper, with);
  return graph().apply(helper, std::move(values), std::move(with), {label_}, label_ + "/" + helper);
}

ir::ValueId NodeImport::constant(Tensor tensor) {
  return graph().add_constant(label_ + "/constant", std::move(tensor));
}

ir::ValueId NodeImport::named_constant(size_t output, Tensor tensor) {
  return graph().add_constant(scope_.prefix + std::string(proto_.outputs[output]), std::move(tensor));
}

ir::ValueId NodeImport::integers(const std::vector<int64_t>& values) {
  return constant(Tensor::of<int64_t>(DType::i64, Dims{static_cast<int64_t>(values.size())}, values));
}

ir::ValueId NodeImport::scalar(int64_t value) {
  return constant(Tensor::of<int64_t>(DType::i64, Dims{}, std::span<const int64_t>(&value, 1)));
}

ir::ValueId NodeImport::scalar_like(float value, ir::ValueId like) {
  const ir::ValueId wide = constant(Tensor::of<float>(DType::f32, Dims{}, std::span<const float>(&value, 1)));
  const DType type = dtype(like);
  if (type == DType::f32) return wide;
  if (type == DType::undefined) return add("CastLike", {wide, like});
  return add("Cast", {wide}, {{"to", static_cast<int64_t>(type)}});
}

template <class T>
const T* NodeImport::attribute(const std::string& name, const char* kind) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (!value) fail("attribute '" + name + "' is not " + kind);
  return value;
}

int64_t NodeImport::integer(const std::string& name, int64_t otherwise) const {
  const auto* value = attribute<int64_t>(name, "an integer");
  return value ? *value : otherwise;
}

float NodeImport::real(const std::string& name, float otherwise) const {
  const auto* value = attribute<float>(name, "a number");
  return value ? *value : otherwise;
}

std::string NodeImport::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = attribute<std::string>(name, "a string");
  return value ? *value : otherwise;
}

std::vector<int64_t> NodeImport::integer_list(const std::string& name) const {
  const auto* value = attribute<std::vector<int64_t>>(name, "a list of integers");
  return value ? *value : std::vector<int64_t>();
}

std::vector<float> NodeImport::real_list(const std::string& name) const {
  const auto* value = attribute<std::vector<float>>(name, "a list of numbers");
  return value ? *value : std::vector<float>();
}

void NodeImport::drop(std::initializer_list<const char*> names) {
  for (const char* name : names) attributes.erase(name);
}

void NodeImport::fail(const std::string& why) const {
  scope_.job.fail("a node does not follow the specification of its operator",
                  "node '" + label_ + "' (" + op + ", opset " + std::to_string(opset) + "): " + why);
}

void NodeImport::unsupported(const std::string& why) { note(ir::OpId(proto_.domain, proto_.op), why); }

void NodeImport::note(const ir::OpId& name, const std::string& why) {
  Missing& missing = scope_.job.missing[name.str()];
  ++missing.count;
  if (missing.nodes.size() < 3) missing.nodes.push_back(label_);
  if (!why.empty()) missing.reasons.insert(why);
}

}  // namespace tenon::onnx
