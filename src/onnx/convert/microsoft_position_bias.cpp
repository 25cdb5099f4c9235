// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "onnx/parts.h"

/// What com.microsoft adds to scores by the distance of queries and keys.
namespace tenon::onnx::microsoft_position_bias {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:RelativePositionBias",
             {flag("is_bidirectional"), integer("max_distance").at_least(2).required()});
TENON_FORMER("com.microsoft:GatedRelativePositionBias", {integer("num_heads").at_least(1).required()});

/// The bucket of each distance, [queries, keys], as T5 has them: one each for near ones, and logarithms beyond.
ir::ValueId buckets(NodeImport& node, ir::ValueId distance, int64_t count, int64_t farthest, bool both_ways) {
  ir::ValueId side = ir::no_value, away = node.add("Neg", {distance});
  if (both_ways) {
    count /= 2;
    const ir::ValueId behind =
        node.add("Cast", {node.add("Greater", {distance, node.scalar(0)})}, {{"to", static_cast<int64_t>(DType::i64)}});
    side = node.add("Mul", {behind, node.scalar(count)});
    away = node.add("Abs", {distance});
  } else {
    away = node.add("Max", {away, node.scalar(0)});
  }
  const int64_t near = count / 2;
  const ir::ValueId one = node.add("Max", {away, node.scalar(1)}), real = cast(node, one, DType::f32);
  const auto number = [&](double value) { return node.scalar_like(static_cast<float>(value), real); };
  const ir::ValueId ratio = node.add("Div", {real, number(static_cast<double>(near))});
  const double range = std::log(static_cast<double>(farthest) / static_cast<double>(near));
  const ir::ValueId share = node.add("Div", {node.add("Log", {ratio}), number(range)});
  const ir::ValueId steps = node.add("Mul", {share, number(static_cast<double>(count - near))});
  const ir::ValueId far = node.add("Add", {cast(node, steps, DType::i64), node.scalar(near)});
  const ir::ValueId last = node.add("Min", {far, node.scalar(count - 1)});
  return plus(node, node.add("Where", {node.add("Less", {away, node.scalar(near)}), away, last}), side);
}

void relative(NodeImport& node) {
  want_inputs(node, {0, 1, 2}, 3);
  const auto count = node.size(node.input(0), 0);
  const bool both_ways = node.integer("is_bidirectional", 0) != 0;
  if (!count) return node.unsupported("a table of unknown size");
  if (*count < (both_ways ? 4 : 2) || node.integer("max_distance", 0) <= *count / (both_ways ? 4 : 2))
    node.fail("its " + std::to_string(*count) + " buckets do not fit its largest distance");
  const auto places = [&](size_t input) {
    return count_up(node, reshaped(node, cast(node, node.input(input), DType::i64), {1}));
  };
  const ir::ValueId distance = node.add("Sub", {places(2), unsqueezed(node, places(1), {1})});
  const ir::ValueId at = buckets(node, distance, *count, node.integer("max_distance", 0), both_ways);
  const ir::ValueId picked = transposed(node, node.add("Gather", {node.input(0), at}), {2, 0, 1});
  node.bind(0, unsqueezed(node, picked, {0}));
}
TENON_IMPORT(relative, "com.microsoft:RelativePositionBias");

/// (u (r a - 1) + 2) times the bias, with gates u and r made of the queries.
void gated(NodeImport& node) {
  want_inputs(node, {0, 1, 2, 3, 4, 5}, 7);
  if (node.has(6)) return node.unsupported("tokens without padding");
  const int64_t heads = node.integer("num_heads", 1);
  const auto width = node.size(node.input(3), -1);
  if (!width || *width % 2) return node.unsupported("gates of unknown size");
  const ir::ValueId queries = reshaped(node, node.add("Add", {node.input(0), node.input(1)}), {0, 0, heads, -1});
  const ir::ValueId products = node.add("MatMul", {transposed(node, queries, {0, 2, 1, 3}), node.input(3)});
  const ir::ValueId halves = reshaped(node, node.add("Add", {products, node.input(4)}), {0, 0, 0, 2, *width / 2});
  const ir::ValueId sums = node.add("ReduceSum", {halves, node.integers({-1})}, {{"keepdims", int64_t{0}}});
  const ir::ValueId gates = node.add("Sigmoid", {sums});
  const ir::ValueId u = sliced(node, gates, -1, 0, 1), r = sliced(node, gates, -1, 1, 2);
  const ir::ValueId inner = node.add("Sub", {node.add("Mul", {r, node.input(5)}), node.scalar_like(1, gates)});
  const ir::ValueId gate = node.add("Add", {node.add("Mul", {u, inner}), node.scalar_like(2, gates)});
  become(node, "Mul", {gate, node.input(2)});
}
TENON_IMPORT(gated, "com.microsoft:GatedRelativePositionBias");

}  // namespace
}  // namespace tenon::onnx::microsoft_position_bias
