// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/fake_quantize.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Weights as the numbers they stand for.
Tensor as_f32(const Tensor& weights, const Tensor& scales) {
  Tensor result(DType::f32, weights.dims());
  const int64_t rows = weights.dims()[0], inner = rows > 0 ? weights.elements() / rows : 0;
  for (int64_t at = 0; at < weights.elements(); ++at)
    result.data<float>()[at] = static_cast<float>(weights.dtype() == DType::i8 ? weights.data<int8_t>()[at]
                                                                               : weights.data<int16_t>()[at]) *
                               scales.data<float>()[scales.elements() == 1 ? 0 : at / inner];
  return result;
}

}  // namespace

bool int8_to_f32(ir::Graph& graph, ir::NodeId id) {
  enum : size_t { x_scale = 4, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };
  const ir::Node node = graph.node(id);
  const bool wide = node.op == "tenon:Int16Conv";
  if (node.op != "tenon:Int8Conv" && !wide) return false;
  const auto input = [&](size_t at) { return at < node.inputs.size() ? node.inputs[at] : ir::no_value; };
  if (!graph.constant(input(1)) || !graph.constant(input(w_scale))) return false;
  const Tensor weights = *graph.constant(input(1)), scales = *graph.constant(input(w_scale));
  const auto convert = [&](const char* op, ir::ValueId value, size_t scale, size_t zero) {
    const int64_t count = graph.constant(input(scale)) ? graph.constant(input(scale))->elements() : 1;
    if (count == 1) return graph.apply(op, {value, input(scale), input(zero)}, {}, {});
    const std::vector<uint8_t> zeros(static_cast<size_t>(count), graph.constant(input(zero))->data<uint8_t>()[0]);
    const ir::ValueId list = graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {count}, zeros));
    return graph.apply(op, {value, input(scale), list}, {{"axis", int64_t{-1}}}, {});
  };
  const auto read = [&](ir::ValueId value, size_t scale, size_t zero) {
    return graph.value(value).dtype == DType::u8 ? convert("DequantizeLinear", value, scale, zero) : value;
  };
  ir::ValueId x = read(input(0), x_scale, x_zero);
  if (wide) {
    const auto steps = steps_of(graph, input(x_scale), input(x_zero));
    if (!steps) return false;
    x = fake_quantize(graph, x, *steps, {}, graph.value(x).name);
  }
  std::vector<ir::ValueId> inputs{x, graph.add_constant("", as_f32(weights, scales)), input(2)};
  if (input(3) != ir::no_value) inputs.push_back(read(input(3), r_scale, r_zero));
  while (inputs.back() == ir::no_value) inputs.pop_back();
  ir::Attributes attributes = node.attributes;
  attributes.erase("output_dtype");
  ir::ValueId result = graph.apply("Conv", inputs, attributes, node.origins);
  if (input(y_scale) != ir::no_value)
    result = convert("QuantizeLinear", result, y_scale, y_zero);
  graph.value(result).dtype = graph.value(node.outputs[0]).dtype;
  graph.replace_uses(node.outputs[0], result);
  graph.remove(id);
  return true;
}

bool int16_conv_to_f32(ir::Graph& graph, ir::NodeId id) {
  return graph.node(id).op == "tenon:Int16Conv" && int8_to_f32(graph, id);
}

bool int16_convs_to_f32(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return int16_conv_to_f32(graph, id); });
}

bool has_int16_convs(const ir::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const ir::Node& node) { return node.alive && node.op == "tenon:Int16Conv"; });
}

bool int16_to_f32(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    return node.op == "tenon:Int8Conv" && graph.value(node.inputs[1]).dtype == DType::i16 && int8_to_f32(graph, id);
  });
}

}  // namespace tenon::passes
