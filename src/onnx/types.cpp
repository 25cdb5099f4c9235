// SPDX-License-Identifier: Apache-2.0
#include "onnx/convert.h"
#include "ops/op.h"
#include "tenon/error.h"

/// What conversions ask about values before the graph is whole.
namespace tenon::onnx {
namespace {

constexpr int max_steps = 1000;  // long chains must not make the import quadratic

const ir::Node* carrier(const ir::Graph& graph, ir::ValueId value, size_t& slot) {
  const ir::Node* node = graph.producer(value);
  if (!node) return nullptr;
  slot = node->op == "Where" ? 1 : 0;
  return node->inputs.size() > slot && node->inputs[slot] != ir::no_value ? node : nullptr;
}

}  // namespace

DType NodeImport::dtype_without_inference(ir::ValueId value) const {
  const ir::Graph& graph = scope_.graph;
  for (int step = 0; value != ir::no_value && step < max_steps; ++step) {
    if (graph.value(value).dtype != DType::undefined) return graph.value(value).dtype;
    if (const Tensor* constant = graph.constant(value)) return constant->dtype();
    const auto declared = scope_.types.find(value);
    if (declared != scope_.types.end() && declared->second->kind == TypeProto::Kind::tensor &&
        declared->second->element)
      return element_type(declared->second->element, graph.value(value).name);
    size_t slot = 0;
    const ir::Node* node = carrier(graph, value, slot);
    if (!node || !ops::has_trait(node->op, ops::Trait::same_type)) {
      if (node && (node->op == "Cast")) return static_cast<DType>(node->integer("to", 0));
      return DType::undefined;
    }
    value = node->inputs[slot];
  }
  return DType::undefined;
}

std::optional<size_t> NodeImport::rank_without_inference(ir::ValueId value) const {
  const ir::Graph& graph = scope_.graph;
  for (int step = 0; value != ir::no_value && step < max_steps; ++step) {
    if (const Tensor* constant = graph.constant(value)) return constant->dims().rank();
    if (graph.value(value).shape) return graph.value(value).shape->size();
    const auto declared = scope_.types.find(value);
    if (declared != scope_.types.end() && declared->second->shape) return declared->second->shape->size();
    size_t slot = 0;
    const ir::Node* node = carrier(graph, value, slot);
    if (!node) return std::nullopt;
    if (node->op == "Flatten" || node->op == "Gemm") return 2;
    if (node->op == "Conv" && node->inputs.size() > 1)
      if (const Tensor* weights = graph.constant(node->inputs[1])) return weights->dims().rank();
    if (!ops::has_trait(node->op, ops::Trait::same_rank)) return std::nullopt;
    value = node->inputs[slot];
  }
  return std::nullopt;
}

/// Nodes of bodies are not inferred, as what these take is known when all around them is.
const ir::Value& NodeImport::inferred(ir::ValueId value) const {
  Job& job = scope_.job;
  if (&scope_.graph == job.main)
    for (; job.inferred < static_cast<ir::NodeId>(scope_.graph.nodes.size()); ++job.inferred) {
      try {
        ops::infer(scope_.graph, job.inferred);
      } catch (const Error&) {  // said again where all is inferred
      }
    }
  return scope_.graph.value(value);
}

DType NodeImport::dtype(ir::ValueId value) const {
  const DType known = dtype_without_inference(value);
  return known != DType::undefined || value == ir::no_value ? known : inferred(value).dtype;
}

std::optional<size_t> NodeImport::rank(ir::ValueId value) const {
  const std::optional<size_t> known = rank_without_inference(value);
  if (known || value == ir::no_value) return known;
  const std::optional<ir::Shape>& shape = inferred(value).shape;
  return shape ? std::optional(shape->size()) : std::nullopt;
}

std::optional<ir::Dim> NodeImport::dim(ir::ValueId value, int64_t axis) const {
  if (value == ir::no_value) return std::nullopt;
  const std::optional<ir::Shape>& shape = inferred(value).shape;
  if (!shape) return std::nullopt;
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(shape->size()) : axis;
  return at >= 0 && at < static_cast<int64_t>(shape->size()) ? std::optional((*shape)[static_cast<size_t>(at)])
                                                             : std::nullopt;
}

std::optional<int64_t> NodeImport::size(ir::ValueId value, int64_t axis) const {
  if (const auto known = dim(value, axis); known && known->is_constant()) return known->value();
  const auto declared = scope_.types.find(value);
  if (declared == scope_.types.end() || !declared->second->shape) return std::nullopt;
  const auto& sizes = *declared->second->shape;
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis;
  if (at < 0 || at >= static_cast<int64_t>(sizes.size())) return std::nullopt;
  const auto& size = sizes[static_cast<size_t>(at)].value;
  return size && *size >= 0 ? size : std::nullopt;
}

std::pair<ir::ValueId, int64_t> NodeImport::input_of_size(ir::ValueId value, int64_t axis) const {
  const auto wanted = dim(value, axis);
  if (!wanted) return {ir::no_value, 0};
  for (const ir::ValueId input : scope_.graph.inputs) {
    const auto& shape = scope_.graph.value(input).shape;
    for (size_t at = 0; shape && at < shape->size(); ++at)
      if ((*shape)[at] == *wanted) return {input, static_cast<int64_t>(at)};
  }
  return {ir::no_value, 0};
}

std::optional<int64_t> NodeImport::known_integer(ir::ValueId value) const {
  if (value == ir::no_value) return std::nullopt;
  if (const Tensor* list = scope_.graph.constant(value); list && list->elements() == 1) {
    if (list->dtype() == DType::i64) return *list->data<int64_t>();
    if (list->dtype() == DType::i32) return *list->data<int32_t>();
  }
  const auto& content = inferred(value).content;
  return content && content->size() == 1 && (*content)[0].is_constant() ? std::optional((*content)[0].value())
                                                                        : std::nullopt;
}

bool NodeImport::has_size(ir::ValueId value, int64_t axis, ir::ValueId list) const {
  const auto size = dim(value, axis);
  if (!size) return false;
  if (const auto known = known_integer(list)) return *size == ir::Dim(*known);
  const auto& content = inferred(list).content;
  return content && content->size() == 1 && (*content)[0] == *size;
}

bool NodeImport::same_size(ir::ValueId a, int64_t a_axis, ir::ValueId b, int64_t b_axis) const {
  const auto first = dim(a, a_axis), second = dim(b, b_axis);
  return first && second && *first == *second;
}

}  // namespace tenon::onnx
