// SPDX-License-Identifier: Apache-2.0
#include "onnx/heads.h"

/// Attention of com.microsoft with its projection: queries, keys and values are one product.
namespace tenon::onnx::microsoft_attention {
namespace {

using namespace ops::attr;

const ops::AttributeDefs common = {integer("num_heads").at_least(1).required(),
                                   flag("unidirectional"),
                                   real("scale"),
                                   real("mask_filter_value"),
                                   integer("do_rotary"),
                                   integer("past_present_share_buffer")};
TENON_FORMER("com.microsoft:Attention",
             common + ops::AttributeDefs{integers("qkv_hidden_sizes"), integer("rotary_embedding_dim")});
TENON_FORMER("com.microsoft:QAttention", common);

enum Input : size_t { x, weights, bias, mask, past, more, past_length };

/// The sizes of queries, keys and values, which lie side by side; empty where they are not known.
std::vector<int64_t> sizes_of(NodeImport& node, int64_t heads, ir::ValueId product) {
  std::vector<int64_t> sizes = node.integer_list("qkv_hidden_sizes");
  auto all = node.size(product, -1);
  if (!all) all = node.size(node.input(bias), -1);
  if (sizes.empty() && !all) return {};
  if (sizes.empty()) {
    if (*all % 3) node.fail("its weights have " + std::to_string(*all) + " columns, no multiple of 3");
    sizes.assign(3, *all / 3);
  }
  if (sizes.size() != 3 || sizes[0] != sizes[1]) node.fail("qkv_hidden_sizes are not two equal sizes and a third");
  for (const int64_t size : sizes)
    if (size < 1 || size % heads) node.fail("heads do not divide a hidden size of " + std::to_string(size));
  if (all && sizes[0] + sizes[1] + sizes[2] != *all)
    node.fail("qkv_hidden_sizes do not add up to the " + std::to_string(*all) + " columns of its weights");
  return sizes;
}

/// A mask [batch, 1, most, most]: the rows of the queries, and the columns of the keys.
ir::ValueId window_of(NodeImport& node, ir::ValueId mask, ir::ValueId before, ir::ValueId keys) {
  const ir::ValueId set = node.add("Greater", {cast(node, mask, DType::i64), node.scalar(0)});
  const ir::ValueId from = node.add("Concat", {before, node.integers({0})}, {{"axis", int64_t{0}}});
  const ir::ValueId to = node.add("Concat", {keys, keys}, {{"axis", int64_t{0}}});
  return node.add("Slice", {set, from, to, node.integers({2, 3})});
}

/// Attention behind the product: `more` is added to the scores.
void finish(NodeImport& node, ir::ValueId product, ir::ValueId masked, ir::ValueId given, ir::ValueId added) {
  const int64_t count = node.integer("num_heads", 1);
  if (node.integer("do_rotary", 0)) return node.unsupported("do_rotary");
  if (node.integer("past_present_share_buffer", 0)) return node.unsupported("past_present_share_buffer");
  const std::vector<int64_t> sizes = sizes_of(node, count, product);
  if (sizes.empty()) return node.unsupported("a projection of unknown size");
  Heads heads{piece(node, product, sizes, 0), piece(node, product, sizes, 1), piece(node, product, sizes, 2), count,
              count};
  heads.causal = node.integer("unidirectional", 0) != 0;
  if (node.has_attribute("scale") && node.real("scale", 0) != 0) heads.scale = node.real("scale", 1);
  ir::ValueId before = node.integers({0}), keys = size_of(node, node.input(x), 1);
  if (given != ir::no_value) {
    const auto part = [&](int64_t at) { return node.add("Gather", {given, node.scalar(at)}, {{"axis", int64_t{0}}}); };
    heads.past_k = part(0), heads.past_v = part(1);
    before = size_of(node, given, 3);
    keys = sum_of_sizes(node, before, keys);
  }
  if (masked != ir::no_value) {
    const bool square = node.rank(masked) == 4u;
    const ir::ValueId visible =
        square ? window_of(node, masked, before, keys) : visible_keys(node, masked, keys, node.input(x));
    if (visible == ir::no_value) return node.unsupported("a mask of this form");
    heads.mask = added_mask(node, visible, node.real("mask_filter_value", -10000), product);
  }
  heads.mask = both(node, heads.mask, fitted(node, added, size_of(node, node.input(x), 1), keys));
  const bool present = node.wants(1);
  const Attended attended = attend(node, heads, present ? Wanted::present : Wanted::result);
  node.bind(0, attended.y);
  if (present)
    node.bind(1, node.add("Concat", {unsqueezed(node, attended.k, {0}), unsqueezed(node, attended.v, {0})},
                          {{"axis", int64_t{0}}}));
}

void convert(NodeImport& node) {
  want_inputs(node, {x, weights}, 7);
  if (node.has(past_length)) return node.unsupported("past_sequence_length, which goes with shared buffers");
  const ir::ValueId product = plus(node, node.add("MatMul", {node.input(x), node.input(weights)}), node.input(bias));
  finish(node, product, node.input(mask), node.input(past), node.input(more));
}
TENON_IMPORT(convert, "com.microsoft:Attention");

/// Inputs: bytes and weights, bias, their scales, mask, zero points, past.
void quantised(NodeImport& node) {
  want_inputs(node, {0, 1, 2, 3, 4}, 9);
  const auto flat = [&](size_t at) {
    const Tensor* list = node.graph().constant(node.input(at));
    return list && list->elements() == 1 && list->dims().rank() ? node.constant(list->reshaped({})) : node.input(at);
  };
  const auto numbers = [&](size_t bytes, size_t scale, size_t zero) {
    std::vector<ir::ValueId> inputs{node.input(bytes), flat(scale)};
    if (node.has(zero)) inputs.push_back(flat(zero));
    return node.add("DequantizeLinear", inputs, {{"axis", int64_t{1}}});
  };
  ir::ValueId products;
  if (node.graph().constant(node.input(3))) {
    products = node.add("MatMul", {numbers(0, 3, 6), numbers(1, 4, 7)});
  } else {  // integers that get their scale where the model runs
    std::vector<ir::ValueId> bytes{node.input(0), node.input(1), node.input(6), node.has(7) ? flat(7) : ir::no_value};
    while (bytes.back() == ir::no_value) bytes.pop_back();
    const ir::ValueId sums = cast(node, node.add("MatMulInteger", std::move(bytes)), DType::f32);
    products = node.add("Mul", {sums, node.add("Mul", {node.input(3), node.input(4)})});
  }
  finish(node, node.add("Add", {products, node.input(2)}), node.input(5), node.input(8), ir::no_value);
}
TENON_IMPORT(quantised, "com.microsoft:QAttention");

}  // namespace
}  // namespace tenon::onnx::microsoft_attention
