// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"

#include <algorithm>
#include <numeric>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/op.h"

namespace tenon::passes {

bool is_identity(const Perm& perm) {
  for (size_t at = 0; at < perm.size(); ++at)
    if (perm[at] != static_cast<int64_t>(at)) return false;
  return true;
}

Perm swapped(size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

Perm inverse(const Perm& perm) {
  Perm result(perm.size());
  for (size_t at = 0; at < perm.size(); ++at) result[perm[at]] = static_cast<int64_t>(at);
  return result;
}

Perm compose(const Perm& first, const Perm& second) {
  Perm result(first.size());
  for (size_t at = 0; at < first.size(); ++at) result[at] = first[second[at]];
  return result;
}

ir::Shape permuted(const ir::Shape& shape, const Perm& perm) {
  ir::Shape result;
  for (int64_t axis : perm) result.push_back(shape[axis]);
  return result;
}

Tensor permuted(const Tensor& tensor, const Perm& perm) {
  const size_t rank = perm.size();
  TENON_CHECK(rank == tensor.dims().rank(), "permutation of another rank");
  Dims dims;
  std::vector<int64_t> strides(rank, 1), step;
  for (size_t at = rank; at-- > 1;) strides[at - 1] = strides[at] * tensor.dims()[at];
  for (int64_t axis : perm) {
    dims.push_back(tensor.dims()[axis]);
    step.push_back(strides[axis]);
  }
  const int64_t total = tensor.elements();
  const bool strings = tensor.dtype() == DType::string;
  Tensor result = strings ? Tensor::of_strings(dims, std::vector<std::string>(total)) : Tensor(tensor.dtype(), dims);
  const size_t size = total && !strings ? tensor.bytes() / total : 0;
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0;
  for (int64_t to = 0; to < total; ++to) {
    if (strings) {
      result.strings()[to] = tensor.strings()[from];
    } else {
      std::memcpy(result.data<char>() + to * size, tensor.data<char>() + from * size, size);
    }
    for (size_t at = rank; at-- > 0;) {
      from += step[at];
      if (++index[at] < dims[at]) break;
      from -= step[at] * dims[at];
      index[at] = 0;
    }
  }
  return result;
}

bool moves_only_ones(const ir::Shape& shape, const Perm& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (shape[axis] == ir::Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

const ir::Node* made_by(const ir::Graph& graph, ir::ValueId id, const char* op) {
  const ir::Node* node = graph.producer(id);
  return node && node->op == op ? node : nullptr;
}

const ir::Node* sole(const ir::Graph& graph, ir::ValueId id, const char* op) {
  const ir::Node* node = made_by(graph, id, op);
  return node && graph.only_user(id) != ir::no_node ? node : nullptr;
}

ir::ValueId behind_ones(const ir::Graph& graph, ir::ValueId id) {
  const auto long_axes = [](const ir::Shape& shape) {
    ir::Shape result;
    for (const ir::Dim& dim : shape)
      if (!(dim == ir::Dim(1))) result.push_back(dim);
    return result;
  };
  for (const char* op : {"Reshape", "Unsqueeze", "Expand"})
    if (const ir::Node* node = made_by(graph, id, op)) {
      const ir::Shape *from = shape_of(graph, node->inputs[0]), *to = shape_of(graph, id);
      return from && to && long_axes(*from) == long_axes(*to) ? behind_ones(graph, node->inputs[0]) : id;
    }
  return id;
}
const ir::Shape* shape_of(const ir::Graph& graph, ir::ValueId id) {
  return id == ir::no_value || !graph.value(id).shape ? nullptr : &*graph.value(id).shape;
}

std::optional<size_t> rank_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::Shape* shape = shape_of(graph, id);
  return shape ? std::optional<size_t>(shape->size()) : std::nullopt;
}

bool same_shape(const ir::Graph& graph, ir::ValueId a, ir::ValueId b) {
  const ir::Shape *left = shape_of(graph, a), *right = shape_of(graph, b);
  return left && right && *left == *right;
}

std::optional<double> scalar(const ir::Graph& graph, ir::ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (!tensor || tensor->dtype() == DType::sequence || tensor->elements() != 1) return std::nullopt;
  switch (tensor->dtype()) {
    case DType::f32: return *tensor->data<float>();
    case DType::f64: return *tensor->data<double>();
    case DType::i32: return *tensor->data<int32_t>();
    case DType::i64: return static_cast<double>(*tensor->data<int64_t>());
    case DType::boolean:
    case DType::u8: return *tensor->data<uint8_t>();
    default: return std::nullopt;
  }
}

bool is_scalar(const ir::Graph& graph, ir::ValueId id, double number) {
  const auto found = scalar(graph, id);
  return found && std::abs(*found - number) <= 1e-4 * std::abs(number);
}

bool is_one(const ir::Graph& graph, ir::ValueId id, DType dtype) {
  const Tensor* constant = graph.constant(id);
  return constant && constant->dtype() == dtype && constant->elements() == 1;
}

bool has_one_scale(const ir::Graph& graph, const ir::Node& node, DType bytes) {
  return node.inputs.size() > 2 && is_one(graph, node.inputs[1], DType::f32) && is_one(graph, node.inputs[2], bytes) &&
         graph.constant(node.inputs[1])->data<float>()[0] > 0 &&
         (bytes != DType::f8e4m3fn || graph.constant(node.inputs[2])->data<uint8_t>()[0] == 0);
}

std::optional<std::vector<int64_t>> sizes_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Shape* shape = shape_of(graph, value);
  if (!shape) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const ir::Dim& size : *shape) {
    if (!size.is_constant() || size.value() < 1) return std::nullopt;
    sizes.push_back(size.value());
  }
  return sizes;
}

std::optional<std::vector<int64_t>> integers(const ir::Graph& graph, ir::ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (!tensor) return std::nullopt;
  std::vector<int64_t> result;
  if (tensor->dtype() == DType::i64) {
    for (int64_t item : tensor->values<int64_t>()) result.push_back(item);
  } else if (tensor->dtype() == DType::i32) {
    for (int32_t item : tensor->values<int32_t>()) result.push_back(item);
  } else {
    return std::nullopt;
  }
  return result;
}

ir::ValueId constant(ir::Graph& graph, const std::string& name, const std::vector<int64_t>& values) {
  const Dims dims{static_cast<int64_t>(values.size())};
  return graph.add_constant(name, Tensor::of<int64_t>(DType::i64, dims, values));
}

ir::ValueId constant(ir::Graph& graph, const std::string& name, const Dims& dims, const std::vector<float>& values) {
  return graph.add_constant(name, Tensor::of<float>(DType::f32, dims, values));
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  for (const std::string& origin : second)
    if (std::find(first.begin(), first.end(), origin) == first.end()) first.push_back(origin);
  return first;
}

bool is_elementwise(const ir::Node& node) {
  return ops::has_trait(node.op, ops::Trait::elementwise) && node.outputs.size() == 1;
}

bool is_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
}

bool is_random(const ir::Node& node) { return ops::has_trait(node.op, ops::Trait::random); }

bool has_subgraph(const ir::Node& node) {
  for (const auto& [key, attribute] : node.attributes)
    if (std::holds_alternative<ir::GraphRef>(attribute)) return true;
  return false;
}

std::optional<size_t> axis_of(int64_t axis, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + size : axis);
}

std::vector<size_t> split_counts(const ir::Shape& from, const ir::Shape& to) {
  std::vector<size_t> counts;
  size_t at = 0;
  for (const ir::Dim& size : from) {
    const size_t begin = at;
    ir::Dim product(1);
    while (at < to.size() && (at == begin || !(product == size))) product = product * to[at++];
    if (!(product == size)) return {};
    counts.push_back(at - begin);
  }
  return at == to.size() ? counts : std::vector<size_t>();
}

std::optional<std::vector<int64_t>> reshape_target(const ir::Shape& from, const ir::Shape& to) {
  std::vector<int64_t> target;
  int unknown = 0;
  bool zero = false;
  for (size_t at = 0; at < to.size(); ++at) {
    if (to[at].is_constant()) {
      target.push_back(to[at].value());
      zero = zero || target.back() == 0;
    } else if (at < from.size() && from[at] == to[at]) {
      target.push_back(0);
    } else {
      target.push_back(-1);
      ++unknown;
    }
  }
  // A real size of 0 would read as "keep", and hides what -1 stands for.
  if (unknown > 1 || zero) return std::nullopt;
  return target;
}

bool each_node(ir::Graph& graph, const std::function<bool(ir::NodeId)>& visit) {
  bool changed = false;
  const auto count = static_cast<ir::NodeId>(graph.nodes.size());
  for (ir::NodeId id = 0; id < count; ++id)
    if (graph.node(id).alive && visit(id)) changed = true;
  return changed;
}

std::optional<Tensor> numbers_of(const ir::Graph& graph, ir::ValueId id) {
  if (const Tensor* given = graph.constant(id)) return *given;
  const ir::Node* read = made_by(graph, id, "DequantizeLinear");
  if (!read) return std::nullopt;
  std::vector<Tensor> operands;
  for (const ir::ValueId input : read->inputs) {
    const Tensor* given = input == ir::no_value ? nullptr : graph.constant(input);
    if (!given && input != ir::no_value) return std::nullopt;
    operands.push_back(given ? *given : Tensor());
  }
  return ops::evaluate(*read, operands)[0];
}

bool moves_one(const ir::Node& node) {
  const ops::Traits traits = ops::traits_of(node.op);
  return traits.has(ops::Trait::moves) && traits.has(ops::Trait::same_scale) && !traits.has(ops::Trait::joins);
}

void replace(ir::Graph& graph, ir::NodeId node, ir::ValueId with) {
  const ir::Value old = graph.value(graph.node(node).outputs[0]);
  if (ir::Value& value = graph.value(with); !value.shape) {
    value.shape = old.shape;
    value.dtype = old.dtype;
  }
  graph.replace_uses(graph.node(node).outputs[0], with);
  graph.remove(node);
}

}  // namespace tenon::passes
