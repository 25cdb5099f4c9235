// SPDX-License-Identifier: Apache-2.0
#include "ops/custom_op.h"

#include <tenon/error.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace tenon::ops {
namespace {

struct Entry {
  tenon_custom_op op;
  std::string domain, name;
};

std::map<ir::OpId, Entry>& registry() {
  static std::map<ir::OpId, Entry> ops;
  return ops;
}

thread_local std::string reason;  // that the present call gives for its failure

template <class T>
const T* attribute(const tenon_op_node* node, const char* name) {
  const auto& all = node_of(node).attributes;
  const auto found = all.find(name);
  return found == all.end() ? nullptr : std::get_if<T>(&found->second);
}

template <class T>
int give(const T* found, T* to) {
  if (found) *to = *found;
  return found != nullptr;
}

template <class T>
int give(const std::vector<T>* found, const T** values, size_t* count) {
  if (found) *values = found->data(), *count = found->size();
  return found != nullptr;
}

constexpr tenon_op_api api = {
    sizeof(tenon_op_api),
    TENON_PLUGIN_VERSION,
    [](const tenon_op_node* node) { return node_of(node).origins.empty() ? "" : node_of(node).origins[0].c_str(); },
    [](const tenon_op_node* node, const char* name, int64_t* value) {
      return give(attribute<int64_t>(node, name), value);
    },
    [](const tenon_op_node* node, const char* name, float* value) { return give(attribute<float>(node, name), value); },
    [](const tenon_op_node* node, const char* name, const char** value) {
      const auto* text = attribute<std::string>(node, name);
      if (text) *value = text->c_str();
      return static_cast<int>(text != nullptr);
    },
    [](const tenon_op_node* node, const char* name, const int64_t** values, size_t* count) {
      return give(attribute<std::vector<int64_t>>(node, name), values, count);
    },
    [](const tenon_op_node* node, const char* name, const float** values, size_t* count) {
      return give(attribute<std::vector<float>>(node, name), values, count);
    },
    [](const tenon_op_node*, const char* why) { reason = why; }};

tenon_op_type type_of(DType dtype, const ir::Shape* shape) {
  tenon_op_type type{static_cast<tenon_dtype>(dtype), -1, {}};
  if (!shape) return type;
  type.rank = static_cast<int32_t>(shape->size());
  for (size_t axis = 0; axis < shape->size(); ++axis)
    type.dims[axis] = (*shape)[axis].is_constant() ? (*shape)[axis].value() : -1;
  return type;
}

tenon_op_type type_of(const Tensor& tensor) {
  tenon_op_type type{static_cast<tenon_dtype>(tensor.dtype()), static_cast<int32_t>(tensor.dims().rank()), {}};
  std::copy(tensor.dims().begin(), tensor.dims().end(), type.dims);
  return type;
}

/// The types of the outputs, of which each was set to something that can be.
std::vector<tenon_op_type> inferred(const ir::Node& node, const std::vector<tenon_op_type>& inputs) {
  const tenon_custom_op& op = *custom_op(node.op);
  std::vector<tenon_op_type> outputs(node.outputs.size(), {TENON_UNDEFINED, -1, {}});
  call_custom_op(node, [&](const tenon_op_node* it) {
    return op.infer(op.context, &api, it, inputs.data(), inputs.size(), outputs.data(), outputs.size());
  });
  for (const tenon_op_type& type : outputs) {
    bool right = size_of(static_cast<DType>(type.dtype)) > 0 && type.rank >= -1 && type.rank <= TENON_MAX_RANK;
    for (int32_t axis = 0; right && axis < type.rank; ++axis) right = type.dims[axis] >= -1;
    if (right) continue;
    reason = "its plugin gave an output no type of numbers, or sizes that cannot be";
    check_custom_call(node, 1);
  }
  return outputs;
}

void infer(Inference& inference) {
  std::vector<tenon_op_type> inputs;
  for (size_t at = 0; at < inference.inputs(); ++at)
    inputs.push_back(type_of(inference.dtype(at), inference.shape(at)));
  const std::vector<tenon_op_type> outputs = inferred(inference.node(), inputs);
  for (size_t at = 0; at < outputs.size(); ++at) {
    std::optional<ir::Shape> shape;
    if (outputs[at].rank >= 0) shape.emplace();
    for (int32_t axis = 0; axis < outputs[at].rank; ++axis)
      shape->push_back(outputs[at].dims[axis] < 0 ? inference.unknown() : ir::Dim(outputs[at].dims[axis]));
    inference.set(at, static_cast<DType>(outputs[at].dtype), std::move(shape));
  }
}

void evaluate(Evaluation& evaluation) {
  const ir::Node& node = evaluation.node();
  std::vector<tenon_op_type> types;
  std::vector<tenon_op_tensor> inputs, outputs;
  for (size_t at = 0; at < evaluation.inputs(); ++at) {
    types.push_back(type_of(evaluation.input(at)));
    inputs.push_back({types.back(), const_cast<void*>(evaluation.input(at).data())});
  }
  std::vector<Tensor> unwanted(node.outputs.size());
  for (const tenon_op_type& type : inferred(node, types)) {
    const size_t at = outputs.size();
    if (type.rank < 0 || std::count(type.dims, type.dims + type.rank, -1) > 0)
      evaluation.fail("its plugin leaves sizes open though those of the inputs are known");
    const Dims dims(std::span<const int64_t>(type.dims, static_cast<size_t>(type.rank)));
    const auto dtype = static_cast<DType>(type.dtype);
    Tensor& tensor = evaluation.wants(at) ? evaluation.output(at, dtype, dims) : unwanted[at] = Tensor(dtype, dims);
    outputs.push_back({type, tensor.data()});
  }
  const tenon_custom_op& op = *custom_op(node.op);
  call_custom_op(node, [&](const tenon_op_node* it) {
    return op.compute(op.context, &api, it, inputs.data(), inputs.size(), outputs.data(), outputs.size());
  });
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Code::unsupported, "the op " + name + " of a plugin cannot be added", {.why = why});
}

}  // namespace

const tenon_op_api& custom_op_api() { return api; }

const ir::Node& node_of(const tenon_op_node* node) { return *reinterpret_cast<const ir::Node*>(node); }

ir::OpId id_of(const tenon_custom_op& op) { return {std::string_view(op.domain), std::string_view(op.name)}; }

void add_custom_op(const tenon_custom_op& given) {
  if (given.size < offsetof(tenon_custom_op, enqueue)) refuse("", "its structure has no size");
  tenon_custom_op op{};
  std::memcpy(&op, &given, std::min(given.size, sizeof op));
  if (!op.domain || !op.name || !*op.name) refuse("", "it has no name");
  const std::string domain = op.domain;
  if ((domain + op.name).find(':') != std::string::npos) refuse(op.name, "its name or domain holds a colon");
  const ir::OpId id = id_of(op);
  const std::string& name = id;
  if (domain.empty() || domain == "ai.onnx" || domain == "tenon") refuse(name, "the domain is not the plugin's");
  if (!op.infer || !op.compute) refuse(name, "it lacks a function");
  if (op.min_inputs < 0 || op.min_outputs < 1 || (op.max_inputs >= 0 && op.max_inputs < op.min_inputs) ||
      (op.max_outputs >= 0 && op.max_outputs < op.min_outputs))
    refuse(name, "its counts of operands cannot be");
  if (find(id)) refuse(name, "there is one already");
  Entry& entry = registry().emplace(id, Entry{op, domain, op.name}).first->second;
  entry.op.domain = entry.domain.c_str(), entry.op.name = entry.name.c_str();
  OpDef definition{id, op.min_inputs, op.max_inputs, op.min_outputs, op.max_outputs, infer, evaluate};
  definition.checks_attributes = false;
  Registrar(std::move(definition));
}

const tenon_custom_op* custom_op(const ir::OpId& op) {
  const auto found = registry().find(op);
  return found == registry().end() ? nullptr : &found->second.op;
}

void check_custom_call(const ir::Node& node, int result) {
  const std::string why = std::exchange(reason, "");
  if (result == 0) return;
  throw Error(Code::invalid_model, "the plugin of node \"" + node.label() + "\" (" + node.op + ") refuses it",
              {.where = "node " + node.label(),
               .why = why.empty() ? "its function returned " + std::to_string(result) : why,
               .node = node.label()});
}

}  // namespace tenon::ops
