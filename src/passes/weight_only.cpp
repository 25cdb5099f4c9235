// SPDX-License-Identifier: Apache-2.0
#include "passes/weight_only.h"

#include <algorithm>

#include "ops/floats.h"
#include "ops/op.h"
#include "ops/weight_only.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using namespace ops;

/// Weights behind a DequantizeLinear, by the axes of what a product takes.
struct Found {
  Tensor integers, scales, zeros;  // zeros: empty where they are 0
  int64_t k, n, block;             // of one output's weights, which are one block where scales have no blocks
  bool transposed;                 // [n][k]
  bool by_output;                  // no blocks: a scale for each output, not one for all
};

/// Whether a value is read from integers, and perhaps moved since.
bool is_quantised(const ir::Graph& graph, ir::ValueId id) {
  const ir::Node* node = graph.producer(id);
  while (node && moves_one(*node)) node = graph.producer(node->inputs[0]);
  return node && node->op == "DequantizeLinear";
}

bool is_product(const ir::Graph& graph, const ir::Node& node) {
  const bool gemm = node.op == "Gemm";
  if ((!gemm && node.op != "MatMul") || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  if (gemm && (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1)) return false;
  const ir::Shape* from = shape_of(graph, node.inputs[0]);
  return from && from->size() >= (gemm ? 2u : 1u) && !is_quantised(graph, node.inputs[0]);
}

std::optional<Found> weights_of(const ir::Graph& graph, const ir::Node& product) {
  const ir::Node* node = made_by(graph, product.inputs[1], "DequantizeLinear");
  if (!node) return std::nullopt;
  const Tensor *integers = graph.constant(node->inputs[0]), *scales = graph.constant(node->inputs[1]);
  const bool has_zeros = node->inputs.size() > 2 && node->inputs[2] != ir::no_value;
  const Tensor* zeros = has_zeros ? graph.constant(node->inputs[2]) : nullptr;
  if (!integers || !scales || (has_zeros && !zeros) || integers->dims().rank() != 2) return std::nullopt;
  const DType type = integers->dtype();
  const bool bytes = type == DType::u8 || type == DType::i8;
  if ((!bytes && type != DType::u4 && type != DType::i4) || scales->dtype() != DType::f32) return std::nullopt;
  Found found{*integers, *scales, zeros ? *zeros : Tensor(), 0, 0, 0, false, false};
  found.transposed = product.op == "Gemm" && product.integer("transB", 0);
  const int64_t k_axis = found.transposed ? 1 : 0, n_axis = 1 - k_axis, axis = node->integer("axis", 1);
  found.k = integers->dims()[static_cast<size_t>(k_axis)], found.n = integers->dims()[static_cast<size_t>(n_axis)];
  if (found.k < 1 || found.n < 1) return std::nullopt;
  const int64_t block = node->integer("block_size", 0), at = axis < 0 ? axis + 2 : axis;
  if (zeros && (zeros->dtype() != type || zeros->elements() != scales->elements())) return std::nullopt;
  found.block = block ? block : found.k + found.k % 2;
  if (block) return at == k_axis && (bytes || block % 2 == 0) ? std::optional(found) : std::nullopt;
  found.by_output = scales->dims().rank() == 1 && scales->elements() == found.n && found.n > 1;
  const bool fits = found.by_output ? at == n_axis : scales->elements() == 1;
  return fits ? std::optional(found) : std::nullopt;
}

/// An integer as what stands for it among unsigned ones, whose middle is the zero of signed ones.
int unsigned_at(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype()) {
    case DType::i4: return tensor.data<int8_t>()[at] + 8;
    case DType::i8: return tensor.data<int8_t>()[at] + 128;
    case DType::u4: return tensor.data<uint8_t>()[at] & 15;
    default: return tensor.data<uint8_t>()[at];
  }
}

/// In f16 where that has all of the scales.
Tensor smallest(const Tensor& scales) {
  Tensor small(DType::f16, scales.dims());
  for (int64_t at = 0; at < scales.elements(); ++at) {
    const float scale = scales.data<float>()[at];
    small.data<uint16_t>()[at] = f16_bits(scale);
    if (f16_value(f16_bits(scale)) != scale) return scales;
  }
  return small;
}

bool lower_weight_only_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (!is_product(graph, node)) return false;
  const auto found = weights_of(graph, node);
  if (!found) return false;
  const auto& [integers, scales, zeros, k, n, block, transposed, by_output] = *found;
  ir::ValueId bias = node.inputs.size() > 2 ? node.inputs[2] : ir::no_value;
  if (bias != ir::no_value) {
    const Tensor* row = graph.constant(bias);
    if (!row || row->dtype() != DType::f32 || row->elements() != n || row->dims().back() != n) return false;
    if (row->dims().rank() != 1) bias = graph.add_constant("", row->reshaped({n}));
  }
  const DType type = integers.dtype();
  const int64_t bits = type == DType::u4 || type == DType::i4 ? 4 : 8;
  const int64_t blocks = (k - 1) / block + 1, bytes = weight_only::block_bytes(block, bits);
  const bool one = blocks == 1 && scales.dims().rank() < 2, shifts = zeros || type == DType::u4 || type == DType::u8;
  Tensor packed(DType::u8, {n, blocks, bytes}), steps(DType::f32, {n, blocks}), offsets(DType::u8, {n, blocks});
  for (int64_t row = 0; row < n; ++row)
    for (int64_t at = 0; at < k; ++at) {
      const int number = unsigned_at(integers, transposed ? row * k + at : at * n + row);
      uint8_t& to = packed.data<uint8_t>()[(row * blocks + at / block) * bytes + at % block * bits / 8];
      to = static_cast<uint8_t>(bits == 8 ? number : to | number << at % block % 2 * 4);
    }
  for (int64_t row = 0; row < n; ++row)
    for (int64_t at = 0; at < blocks; ++at) {
      const int64_t from = one ? (by_output ? row : 0) : transposed ? row * blocks + at : at * n + row;
      const bool is_signed = type == DType::i4 || type == DType::i8;
      steps.data<float>()[row * blocks + at] = scales.data<float>()[from];
      offsets.data<uint8_t>()[row * blocks + at] = static_cast<uint8_t>(zeros       ? unsigned_at(zeros, from)
                                                                        : is_signed ? weight_only::middle(bits)
                                                                                    : 0);
    }
  std::vector<ir::ValueId> inputs{node.inputs[0], graph.add_constant("", packed), bias,
                                  node.inputs.size() > 3 ? node.inputs[3] : ir::no_value,
                                  graph.add_constant("", smallest(steps))};
  if (shifts) inputs.push_back(graph.add_constant("", offsets));
  ir::Attributes attributes{{"k", k}, {"block", block}, {"bits", bits}};
  for (const char* word : {"activation", "residual"})
    if (node.has(word)) attributes[word] = node.text(word, "");
  if (node.has("slopes")) attributes["slopes"] = node.reals("slopes");
  if (node.op == "MatMul")
    for (const char* parameter : {"alpha", "beta"})
      if (node.has(parameter)) attributes[parameter] = node.real(parameter, 0);
  const ir::ValueId result =
      graph.apply("tenon:WeightOnlyMatMul", inputs, attributes, node.origins, graph.value(node.outputs[0]).name);
  replace(graph, id, result);
  return true;
}

/// A product by the same weights in f32.
bool widen(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "tenon:WeightOnlyMatMul") return false;
  using namespace weight_only;
  const Tensor *integers = graph.constant(node.inputs[weights]), *steps = graph.constant(node.inputs[scales]);
  const bool has_zeros = node.inputs.size() > zero_points && node.inputs[zero_points] != ir::no_value;
  const Tensor* zeros = has_zeros ? graph.constant(node.inputs[zero_points]) : nullptr;
  if (!integers || !steps || (has_zeros && !zeros)) return false;
  const int64_t k = node.integer("k", 0), block = node.integer("block", 32), bits = node.integer("bits", 4);
  const int64_t n = integers->dims()[0], blocks = integers->dims()[1], bytes = integers->dims()[2];
  const Tensor scale = as_f32(*steps);
  Tensor wide(DType::f32, {k, n});
  for (int64_t row = 0; row < n; ++row)
    for (int64_t at = 0; at < k; ++at) {
      const int64_t from = row * blocks + at / block;
      const int zero = zeros ? zeros->data<uint8_t>()[from] : middle(bits);
      const int number = integer(integers->data<uint8_t>() + from * bytes, at % block, bits);
      wide.data<float>()[at * n + row] = static_cast<float>(number - zero) * scale.data<float>()[from];
    }
  std::vector<ir::ValueId> inputs{node.inputs[data], graph.add_constant("", wide)};
  if (node.inputs[bias] != ir::no_value || node.inputs[residual] != ir::no_value) inputs.push_back(node.inputs[bias]);
  if (node.inputs[residual] != ir::no_value) inputs.push_back(node.inputs[residual]);
  ir::Attributes attributes = node.attributes;
  for (const char* own : {"k", "block", "bits"}) attributes.erase(own);
  replace(graph, id, graph.apply("MatMul", inputs, attributes, node.origins, graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool lower_weight_only(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower_weight_only_at(graph, id); });
}
bool weight_only_to_f32(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return widen(graph, id); });
}

}  // namespace tenon::passes
