// SPDX-License-Identifier: Apache-2.0
#include "passes/quantised_operands.h"

#include <algorithm>
#include <span>

#include "passes/fake_quantize.h"
#include "passes/int8_weights.h"
#include "passes/rewrite.h"

namespace tenon::passes {

bool has_last_scales(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape* shape = shape_of(graph, node.inputs[0]);
  if (!shape || shape->empty() || node.inputs.size() < 3 || node.integer("block_size", 0)) return false;
  const Tensor *scales = graph.constant(node.inputs[1]), *zeros = graph.constant(node.inputs[2]);
  const int64_t axis = node.integer("axis", 1), rank = static_cast<int64_t>(shape->size());
  if (!scales || !zeros || scales->dtype() != DType::f32 || zeros->dtype() != DType::u8) return false;
  if ((axis < 0 ? axis + rank : axis) != rank - 1 || shape->back() != ir::Dim(scales->elements())) return false;
  if (scales->dims().rank() != 1 || zeros->elements() != scales->elements()) return false;
  const std::span<const float> steps = scales->values<float>();
  const std::span<const uint8_t> bytes = zeros->values<uint8_t>();
  return std::all_of(steps.begin(), steps.end(), [](float scale) { return scale > 0; }) &&
         std::all_of(bytes.begin(), bytes.end(), [&](uint8_t zero) { return zero == bytes[0]; });
}

ir::ValueId first_zero(ir::Graph& graph, ir::ValueId zeros) {
  const Tensor list = *graph.constant(zeros);
  if (list.elements() == 1) return zeros;
  return graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {}, std::vector{list.data<uint8_t>()[0]}));
}

std::optional<Bytes> bytes_of(const ir::Graph& graph, ir::ValueId id, DType byte) {
  const ir::Node* node = made_by(graph, id, "DequantizeLinear");
  if (!node || !has_one_scale(graph, *node, byte)) return std::nullopt;
  return Bytes{node->inputs[0], node->inputs[1], node->inputs[2]};
}

bool same_scale(const ir::Graph& graph, const Bytes& a, const Bytes& b) {
  const auto same = [&](ir::ValueId one, ir::ValueId other, size_t size) {
    return std::equal(graph.constant(one)->data<std::byte>(), graph.constant(one)->data<std::byte>() + size,
                      graph.constant(other)->data<std::byte>());
  };
  return same(a.scale, b.scale, sizeof(float)) && same(a.zero, b.zero, size_of(graph.value(a.zero).dtype));
}

std::optional<Bytes> residual_of(ir::Graph& graph, ir::ValueId id, DType byte) {
  if (const auto bytes = bytes_of(graph, id, byte); bytes || byte == float8) return bytes;
  const ir::Node* node = made_by(graph, id, "DequantizeLinear");
  if (!node || !has_last_scales(graph, *node)) return std::nullopt;
  const ir::Node found = *node;
  return Bytes{found.inputs[0], found.inputs[1], first_zero(graph, found.inputs[2])};
}

std::optional<Bytes> operand_of(ir::Graph& graph, ir::ValueId id, DType byte) {
  if (byte != int16) return bytes_of(graph, id, byte);
  const auto steps = steps_of(graph, id);
  if (!steps) return std::nullopt;
  const auto zero = static_cast<uint16_t>(-steps->low);
  return Bytes{id, constant(graph, "", {}, {steps->scale}),
               graph.add_constant("", Tensor::of<uint16_t>(DType::u16, {}, std::vector{zero}))};
}

bool holds_products(const ir::Graph& graph, const Bytes& x, const Tensor& weights) {
  const Tensor& zero = *graph.constant(x.zero);
  if (zero.dtype() != int16) return true;
  const int64_t low = -int64_t{*zero.data<uint16_t>()};
  return hold_sums(weights, low, low + UINT16_MAX);
}

std::optional<QuantisedWeights> quantised_weights(ir::Graph& graph, ir::ValueId id, int64_t axis, DType byte) {
  const ir::Node* node = made_by(graph, id, "DequantizeLinear");
  if (!node || node->integer("block_size", 0) != 0) return std::nullopt;
  const Tensor *bytes = graph.constant(node->inputs[0]), *scales = graph.constant(node->inputs[1]), *zeros = nullptr;
  const auto is_byte = [byte](const Tensor& one) {
    return byte == float8 ? one.dtype() == float8 : one.dtype() == DType::i8 || one.dtype() == DType::u8;
  };
  if (!bytes || !scales || !is_byte(*bytes) || scales->dtype() != DType::f32) return std::nullopt;
  const auto rank = static_cast<int64_t>(bytes->dims().rank());
  const int64_t along = node->integer("axis", 1), own = along < 0 ? along + rank : along;
  const auto fits = [&](const Tensor& list) {
    return list.elements() == 1 || (own == axis && list.elements() == bytes->dims()[static_cast<size_t>(axis)]);
  };
  if (axis >= rank || !fits(*scales)) return std::nullopt;
  if (node->inputs.size() > 2 && node->inputs[2] != ir::no_value) {
    zeros = graph.constant(node->inputs[2]);
    if (!zeros || !is_byte(*zeros) || !fits(*zeros)) return std::nullopt;
  }
  const ir::ValueId given = node->inputs[0], list = node->inputs[1];
  const bool are_centred = !zeros || std::all_of(zeros->data<std::byte>(), zeros->data<std::byte>() + zeros->elements(),
                                                 [](std::byte zero) { return zero == std::byte{}; });
  if (bytes->dtype() != DType::u8 && are_centred) return QuantisedWeights{given, list};
  if (byte == float8) return std::nullopt;
  const Tensor numbers = centred(*bytes, zeros, static_cast<size_t>(axis));
  return QuantisedWeights{graph.add_constant(graph.value(given).name, numbers), list};
}

std::optional<Bytes> depthwise_by_channel(ir::Graph& graph, const ir::Node& conv, QuantisedWeights& weights) {
  const Tensor numbers = *graph.constant(weights.value), scales = *graph.constant(weights.scales);
  if (numbers.dims().rank() != 4) return std::nullopt;
  const int64_t group = conv.integer("group", 1), count = numbers.dims()[0];
  const auto bytes = residual_of(graph, conv.inputs[0], DType::u8);
  if (!bytes || numbers.dims()[1] != 1 || group < 2 || count % group) return std::nullopt;
  const Tensor given = *graph.constant(bytes->scale);
  if (given.elements() != group) return std::nullopt;
  std::vector<float> both(static_cast<size_t>(count));
  for (int64_t at = 0; at < count; ++at)
    both[static_cast<size_t>(at)] = static_cast<float>(double{given.data<float>()[at / (count / group)]} *
                                                       scales.data<float>()[scales.elements() == 1 ? 0 : at]);
  weights.scales = constant(graph, graph.value(weights.scales).name, {count}, both);
  return Bytes{bytes->value, constant(graph, "", {}, {1.f}), bytes->zero};
}

}  // namespace tenon::passes
