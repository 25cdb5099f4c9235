// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "passes/fake_quantize.h"
#include "passes/int8_weights.h"
#include "passes/passes.h"
#include "passes/quantised_operands.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_parts = 4;

/// Rows of a matrix.
Tensor matrix_rows(const Tensor& matrix, int64_t from, int64_t count) {
  Tensor part(matrix.dtype(), {count, matrix.dims()[1]});
  const int64_t row = matrix.dims()[1] * static_cast<int64_t>(size_of(matrix.dtype()));
  std::memcpy(part.data<std::byte>(), matrix.data<std::byte>() + from * row, static_cast<size_t>(count * row));
  return part;
}

/// The fewest equal parts of a product's inputs whose sums stay within 32 bits; 0 where it is none, or has no such.
int64_t int16_parts(ir::Graph& graph, const ir::Node& node) {
  const bool gemm = node.op == "Gemm";
  if ((!gemm && node.op != "MatMul") || node.has("activation") || node.has("residual") || node.inputs.size() > 3)
    return 0;
  if (gemm && (node.integer("transA", 0) || node.integer("transB", 0) || node.real("alpha", 1) != 1 ||
               node.real("beta", 1) != 1))
    return 0;
  const auto steps = steps_of(graph, node.inputs[0]);
  const auto weights = steps ? quantised_weights(graph, node.inputs[1], 1, DType::u16) : std::nullopt;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!weights || !from || !to || from->size() < 2) return 0;
  const Tensor matrix = *graph.constant(weights->value);
  if (matrix.dims().rank() != 2 || matrix.dtype() != DType::i8) return 0;
  const auto low = static_cast<int64_t>(steps->low);
  const int64_t k = matrix.dims()[0];
  for (int64_t parts = 1; parts <= most_parts; ++parts) {
    bool hold = k % parts == 0;
    for (int64_t part = 0; hold && part < parts; ++part)
      hold = hold_sums(by_rows(matrix_rows(matrix, part * k / parts, k / parts)), low, low + UINT16_MAX);
    if (hold) return parts > 1 ? parts : 0;
  }
  return 0;
}

bool split_product(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const int64_t parts = int16_parts(graph, node);
  if (parts == 0) return false;
  const QuantisedWeights weights = *quantised_weights(graph, node.inputs[1], 1, DType::u16);
  const Tensor matrix = *graph.constant(weights.value);
  const int64_t size = matrix.dims()[0] / parts;
  const ir::Shape to = *shape_of(graph, node.outputs[0]);
  ir::Shape from = *shape_of(graph, node.inputs[0]);
  from.back() = size;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto add = [&](const ir::OpId& op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes,
                       const ir::Shape& shape) {
    const ir::ValueId value = graph.apply(op, inputs, attributes, node.origins, name);
    graph.value(value).shape = shape, graph.value(value).dtype = DType::f32;
    return value;
  };
  ir::ValueId sum = ir::no_value;
  for (int64_t part = 0; part < parts; ++part) {
    const auto at = [&](int64_t number) { return constant(graph, "", {number}); };
    const ir::ValueId x = add("Slice", {node.inputs[0], at(part * size), at((part + 1) * size), at(-1)}, {}, from);
    const ir::ValueId stored = graph.add_constant("", matrix_rows(matrix, part * size, size));
    const ir::ValueId w =
        add("DequantizeLinear", {stored, weights.scales}, {{"axis", int64_t{1}}}, {size, matrix.dims()[1]});
    std::vector<ir::ValueId> inputs{x, w};
    if (part == 0 && node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
    const ir::ValueId product =
        add(part == 0 ? node.op : ir::OpId("MatMul"), inputs, part == 0 ? node.attributes : ir::Attributes(), to);
    sum = sum == ir::no_value ? product : add("Add", {sum, product}, {}, to);
  }
  replace(graph, id, sum);
  return true;
}

}  // namespace

bool split_int16_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_product(graph, id); });
}

}  // namespace tenon::passes
