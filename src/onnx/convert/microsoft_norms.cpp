// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Normalisations as ONNX Runtime's optimiser writes them, of com.microsoft and of its own in the standard's domain.
namespace tenon::onnx::microsoft_norms {
namespace {

using namespace ops::attr;

TENON_FORMER("SimplifiedLayerNormalization", {integer("axis"), real("epsilon"), ops::attr::element_type("stash_type")});
TENON_FORMER("com.microsoft:SkipLayerNormalization", {real("epsilon")});
TENON_FORMER("com.microsoft:SkipSimplifiedLayerNormalization", {real("epsilon")});
TENON_FORMER("com.microsoft:EmbedLayerNormalization", {real("epsilon"), integer("mask_index_type")});
const ops::AttributeDefs of_groups = {integer("activation").between(0, 1).required(), flag("channels_last"),
                                      real("epsilon"), integer("groups").at_least(1).required()};
TENON_FORMER("com.microsoft:GroupNorm", of_groups);
TENON_FORMER("com.microsoft:SkipGroupNorm", of_groups);

/// 1 / sqrt(mean(x * x) + epsilon) along the axes from `axis` on, in f32.
ir::ValueId inverse_deviation(NodeImport& node, ir::ValueId x, int64_t axis, float epsilon) {
  const auto rank = node.rank(x);
  if (!rank && axis != -1) node.fail("it normalises axes of a tensor of unknown rank");
  std::vector<int64_t> axes{axis};
  for (int64_t at = axis + 1; rank && at < (axis < 0 ? 0 : static_cast<int64_t>(*rank)); ++at) axes.push_back(at);
  const ir::ValueId wide = cast(node, x, DType::f32), squares = node.add("Mul", {wide, wide});
  const ir::ValueId mean = node.add("ReduceMean", {squares, node.integers(axes)}, {{"keepdims", int64_t{1}}});
  const ir::ValueId more = node.add("Add", {mean, node.scalar_like(epsilon, mean)});
  return node.add("Reciprocal", {node.add("Sqrt", {more})});
}

void simplified(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  const int64_t axis = node.integer("axis", -1);
  const float epsilon = node.real("epsilon", 1e-5f);
  if (node.wants(1)) node.bind(1, inverse_deviation(node, node.input(0), axis, epsilon));
  // The result is of the type of the scale.
  become(node, "RMSNormalization", {cast_like(node, node.input(0), node.input(1)), node.input(1)},
         {{"axis", axis}, {"epsilon", epsilon}});
}
TENON_IMPORT(simplified, "SimplifiedLayerNormalization");

/// The sum of what is normalised: a bias joins the product that it belongs to.
ir::ValueId sum_of(NodeImport& node, ir::ValueId bias) {
  ir::ValueId x = node.input(0), skip = node.input(1);
  if (is_product(node, skip) && !is_product(node, x)) skip = plus(node, skip, bias);
  else x = plus(node, x, bias);
  return node.add("Add", {x, skip});
}

void skip_layer(NodeImport& node) {
  const bool centred = node.op == "com.microsoft:SkipLayerNormalization";
  want_inputs(node, {0, 1, 2}, centred ? 5 : 4);
  const float epsilon = node.real("epsilon", 1e-12f);
  const ir::ValueId sum = sum_of(node, node.input(centred ? 4 : 3));
  node.bind(3, sum);
  std::vector<ir::ValueId> operands{sum, node.input(2)};
  if (centred) operands.push_back(node.input(3));
  if (!centred && node.wants(1)) return node.unsupported("means of rows that it does not centre");
  if (!centred && node.wants(2)) node.bind(2, inverse_deviation(node, sum, -1, epsilon));
  become(node, centred ? "LayerNormalization" : "RMSNormalization", operands,
         {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}
TENON_IMPORT(skip_layer, "com.microsoft:SkipLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization");

void embed(NodeImport& node) {
  enum : size_t { ids, segments, words, places, parts, gamma, beta, mask, positions };
  want_inputs(node, {ids, words, places, gamma, beta}, 9);
  if (node.has(segments) != node.has(parts)) node.fail("segments and their embedding go together");
  ir::ValueId sum = node.add("Gather", {node.input(words), node.input(ids)});
  const ir::ValueId length = size_of(node, node.input(ids), 1);
  const ir::ValueId rows =
      node.has(positions) ? node.add("Gather", {node.input(places), node.input(positions)})
                          : node.add("Slice", {node.input(places), node.integers({0}), length, node.integers({0})});
  if (node.has(segments)) sum = node.add("Add", {sum, node.add("Gather", {node.input(parts), node.input(segments)})});
  sum = node.add("Add", {sum, rows});
  node.bind(2, sum);
  if (node.wants(1) && node.has(mask)) {
    const ir::ValueId numbers = cast(node, node.input(mask), DType::i32);
    node.bind(1, node.add("ReduceSum", {numbers, node.integers({1})}, {{"keepdims", int64_t{0}}}));
  } else if (node.wants(1)) {
    const ir::ValueId none = node.constant(Tensor(DType::i32, {1}));
    node.bind(1, node.add("Expand", {none, size_of(node, node.input(ids), 0)}));
  }
  become(node, "LayerNormalization", {sum, node.input(gamma), node.input(beta)},
         {{"axis", int64_t{-1}}, {"epsilon", node.real("epsilon", 1e-12f)}});
}
TENON_IMPORT(embed, "com.microsoft:EmbedLayerNormalization");

/// What is added to an image before it is normalised: of its sizes, or a number for each channel.
ir::ValueId skipped(NodeImport& node, ir::ValueId x, bool last) {
  const auto rank = node.rank(node.input(3));
  if (!rank) node.fail("what it adds is of unknown rank");
  ir::ValueId skip = node.input(3);
  if (*rank == 2) skip = unsqueezed(node, skip, {2, 3});
  else if (last) skip = transposed(node, skip, to_channels_first(4));
  if (node.has(4)) x = node.add("Add", {x, unsqueezed(node, node.input(4), {1, 2})});
  return node.add("Add", {x, skip});
}

void group(NodeImport& node) {
  const bool skips = node.op == "com.microsoft:SkipGroupNorm";
  if (skips) want_inputs(node, {0, 1, 2, 3}, 5);
  else want_inputs(node, {0, 1, 2}, 3);
  const bool last = node.integer("channels_last", 1), silu = node.integer("activation", 0);
  const auto place = [&](ir::ValueId value) { return last ? transposed(node, value, to_channels_last(4)) : value; };
  ir::ValueId x = node.input(0);
  if (last) x = transposed(node, x, to_channels_first(4));
  if (skips) x = skipped(node, x, last);
  if (skips && node.wants(1)) node.bind(1, place(x));
  const ir::ValueId gamma = cast_like(node, node.input(1), x), beta = cast_like(node, node.input(2), x);
  ir::ValueId y = node.add("GroupNormalization", {x, gamma, beta},
                           {{"epsilon", node.real("epsilon", 1e-5f)}, {"num_groups", node.integer("groups", 1)}});
  if (silu) y = node.add("Mul", {y, node.add("Sigmoid", {y})});
  node.bind(0, place(y));
}
TENON_IMPORT(group, "com.microsoft:GroupNorm", "com.microsoft:SkipGroupNorm");

}  // namespace
}  // namespace tenon::onnx::microsoft_norms
