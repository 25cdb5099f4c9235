// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/importer.h"
#include "ops/schema.h"

/// Old forms of an op are turned into the newest one by a small function in convert/, registered by TENON_IMPORT.
namespace tenon::onnx {

/// One ONNX node on its way into the graph. A conversion changes op, inputs and attributes and calls emit(), or builds
/// other nodes.
class NodeImport {
 public:
  NodeImport(const NodeProto& proto, std::string label, int64_t opset, Scope& scope);

  ir::OpId op;
  int64_t opset;
  std::vector<ir::ValueId> inputs;
  ir::Attributes attributes;
  const std::string& label() const { return label_; }
  ir::Graph& graph() { return scope_.graph; }

  size_t outputs() const { return proto_.outputs.size(); }
  bool wants(size_t output) const { return output < outputs() && !proto_.outputs[output].empty(); }
  bool has(size_t input) const { return input < inputs.size() && inputs[input] != ir::no_value; }
  ir::ValueId input(size_t at) const { return at < inputs.size() ? inputs[at] : ir::no_value; }
  /// Puts a value at an input slot, with absent inputs before it where needed.
  void set_input(size_t at, ir::ValueId value);

  /// Adds the node with all outputs that are not bound yet.
  void emit();
  /// Outputs that no value stands for yet get one that nothing makes, and the node is noted as not supported: so what
  /// reads them can be listed, too.
  void name_outputs();
  /// The output is this value.
  void bind(size_t output, ir::ValueId value);
  /// Adds a helper node with one output.
  ir::ValueId add(const ir::OpId& op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});
  ir::ValueId constant(Tensor tensor);
  /// A constant that bears the name of the output.
  ir::ValueId named_constant(size_t output, Tensor tensor);
  ir::ValueId integers(const std::vector<int64_t>& values);
  ir::ValueId scalar(int64_t value);
  /// A scalar of the type of `like`.
  ir::ValueId scalar_like(float value, ir::ValueId like);

  bool has_attribute(const std::string& name) const { return attributes.count(name) > 0; }
  int64_t integer(const std::string& name, int64_t otherwise) const;
  float real(const std::string& name, float otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const std::string& name) const;
  std::vector<float> real_list(const std::string& name) const;
  void drop(std::initializer_list<const char*> names);

  /// As far as known: declared, carried through ops that keep it, or inferred from the inputs of the model.
  DType dtype(ir::ValueId value) const;
  std::optional<size_t> rank(ir::ValueId value) const;
  /// The size of an axis, which counts from the end where it is negative; nullopt while unknown, or free.
  std::optional<int64_t> size(ir::ValueId value, int64_t axis) const;
  /// The first input of the model, and its axis, that has the free size of an axis; no_value where none has. Nodes that
  /// ask one input for a size are the same for all layers.
  std::pair<ir::ValueId, int64_t> input_of_size(ir::ValueId value, int64_t axis) const;
  /// An integer that is a constant, or follows from sizes that are known.
  std::optional<int64_t> known_integer(ir::ValueId value) const;
  /// Whether an axis is known to have the size that stands in a list of one.
  bool has_size(ir::ValueId value, int64_t axis, ir::ValueId list) const;
  /// Whether two axes are known to have one size.
  bool same_size(ir::ValueId a, int64_t a_axis, ir::ValueId b, int64_t b_axis) const;

  /// The model contradicts the specification of the op.
  [[noreturn]] void fail(const std::string& why) const;
  /// Notes that this form cannot be run; the import goes on, to list all such nodes.
  void unsupported(const std::string& why);

 private:
  void check_count() const;
  void check_attributes(Arguments& arguments);
  void refuse(const std::string& unknown);
  template <class T>
  const T* attribute(const std::string& name, const char* kind) const;
  void note(const ir::OpId& op, const std::string& why);
  const ir::Value& inferred(ir::ValueId value) const;
  /// An axis as inference knows it.
  std::optional<ir::Dim> dim(ir::ValueId value, int64_t axis) const;
  DType dtype_without_inference(ir::ValueId value) const;
  std::optional<size_t> rank_without_inference(ir::ValueId value) const;

  const NodeProto& proto_;
  std::string label_;
  Scope& scope_;
  std::vector<bool> bound_;
};

using Convert = void (*)(NodeImport&);
/// nullptr when the op has had one form only.
Convert find_conversion(const ir::OpId& op);
/// The attributes of an op; nullptr where the op is not known.
const ops::AttributeDefs* attributes_of(const ir::OpId& op);
struct FormerRegistrar {
  FormerRegistrar(const char* op, ops::AttributeDefs attributes);
};
struct ConvertRegistrar {
  ConvertRegistrar(std::initializer_list<const char*> ops, Convert convert);
};
#define TENON_IMPORT_NAME2(line) import_registrar_##line
#define TENON_IMPORT_NAME(line) TENON_IMPORT_NAME2(line)
/// TENON_IMPORT(convert, "Squeeze", "Unsqueeze");
#define TENON_IMPORT(function, ...) \
  static const ::tenon::onnx::ConvertRegistrar TENON_IMPORT_NAME(__COUNTER__)({__VA_ARGS__}, function)

/// TENON_FORMER("Scatter", {attr::integer("axis")}): an op that conversions turn into others, and no graph has.
#define TENON_FORMER(...) static const ::tenon::onnx::FormerRegistrar TENON_IMPORT_NAME(__COUNTER__)(__VA_ARGS__)

}  // namespace tenon::onnx
