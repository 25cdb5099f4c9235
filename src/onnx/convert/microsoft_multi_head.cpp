// SPDX-License-Identifier: Apache-2.0
#include "onnx/heads.h"

/// Attention of com.microsoft whose queries, keys and values are inputs, apart or packed.
namespace tenon::onnx::microsoft_multi_head {
namespace {

using namespace ops::attr;

const ops::AttributeDefs common = {integer("num_heads").at_least(1).required(), real("scale"),
                                   real("mask_filter_value")};
TENON_FORMER("com.microsoft:MultiHeadAttention", common + ops::AttributeDefs{flag("unidirectional")});
TENON_FORMER("com.microsoft:DecoderMaskedMultiHeadAttention",
             common + ops::AttributeDefs{flag("output_qk"), flag("past_present_share_buffer")});

/// The inputs by name: the two operators have them in different order.
struct Inputs {
  size_t bias, mask, added, past_k, past_v;
};

/// [batch, length, heads, parts, size]: one part, as [batch, length, heads * size].
ir::ValueId unpacked(NodeImport& node, ir::ValueId packed, int64_t part) {
  const ir::ValueId at = node.scalar(part);
  return reshaped(node, node.add("Gather", {packed, at}, {{"axis", int64_t{3}}}), {0, 0, -1});
}

/// Queries, keys and values of three axes, or keys and values of four that were made before. false where that is not
/// known.
bool take_operands(NodeImport& node, Heads& heads, bool& is_static) {
  const ir::ValueId q = node.input(0), k = node.input(1), v = node.input(2);
  heads.q = q, heads.k = k, heads.v = v;
  if (k == ir::no_value) {
    if (v != ir::no_value) node.fail("it has values without keys");
    const auto rank = node.rank(q);
    if (rank == 5u) {
      heads.q = unpacked(node, q, 0), heads.k = unpacked(node, q, 1), heads.v = unpacked(node, q, 2);
      return true;
    }
    const auto all = node.size(q, -1);
    if (rank != 3u || !all || *all % 3) return false;
    const std::vector<int64_t> sizes(3, *all / 3);
    heads.q = piece(node, q, sizes, 0), heads.k = piece(node, q, sizes, 1), heads.v = piece(node, q, sizes, 2);
    return true;
  }
  if (v == ir::no_value) {
    heads.k = unpacked(node, k, 0), heads.v = unpacked(node, k, 1);
    return node.rank(k) == 5u;
  }
  const auto rank = node.rank(k);
  is_static = rank == 4u;
  return rank == 3u || rank == 4u;
}

/// Adds a bias [size of queries + keys + values] to each of the three.
bool add_bias(NodeImport& node, Heads& heads, ir::ValueId bias, bool is_static) {
  if (bias == ir::no_value) return true;
  const auto all = node.size(bias, 0);
  if (!all) return false;
  const int64_t size = node.size(heads.q, -1).value_or(*all / 3);
  if (*all < 2 * size)
    node.fail("its bias has " + std::to_string(*all) + " numbers for " + std::to_string(size) + " each");
  const std::vector<int64_t> sizes{size, size, *all - 2 * size};
  heads.q = plus(node, heads.q, piece(node, bias, sizes, 0));
  if (is_static) return true;
  heads.k = plus(node, heads.k, piece(node, bias, sizes, 1));
  heads.v = plus(node, heads.v, piece(node, bias, sizes, 2));
  return true;
}

void convert(NodeImport& node, const Inputs& at) {
  Heads heads{node.input(0), node.input(1), node.input(2), node.integer("num_heads", 1), node.integer("num_heads", 1)};
  bool is_static = false;
  if (node.has(at.past_k) != node.has(at.past_v)) node.fail("past keys and past values go together");
  if (!take_operands(node, heads, is_static)) return node.unsupported("queries, keys or values of unknown rank");
  if (!add_bias(node, heads, node.input(at.bias), is_static)) return node.unsupported("a bias of unknown size");
  heads.past_k = node.input(at.past_k), heads.past_v = node.input(at.past_v);
  heads.causal = node.integer("unidirectional", 0) != 0;
  if (node.has_attribute("scale") && node.real("scale", 0) != 0) heads.scale = node.real("scale", 1);
  ir::ValueId keys = size_of(node, heads.k, is_static ? 2 : 1);
  if (heads.past_k != ir::no_value) keys = sum_of_sizes(node, size_of(node, heads.past_k, 2), keys);
  if (node.has(at.mask)) {
    const ir::ValueId visible = visible_keys(node, node.input(at.mask), keys, heads.q);
    if (visible == ir::no_value) return node.unsupported("a mask of this form");
    heads.mask = added_mask(node, visible, node.real("mask_filter_value", -10000), heads.q);
  }
  heads.mask = both(node, heads.mask, fitted(node, node.input(at.added), size_of(node, heads.q, 1), keys));
  if (is_static) heads.q = transposed(node, reshaped(node, heads.q, {0, 0, heads.count, -1}), {0, 2, 1, 3});
  const Wanted wanted = node.wants(3)                    ? Wanted::scores
                        : node.wants(1) || node.wants(2) ? Wanted::present
                                                         : Wanted::result;
  heads.scores = 0;
  const Attended attended = attend(node, heads, wanted);
  node.bind(0, is_static ? reshaped(node, transposed(node, attended.y, {0, 2, 1, 3}), {0, 0, -1}) : attended.y);
  node.bind(1, attended.k);
  node.bind(2, attended.v);
  node.bind(3, attended.scores);
}

void multi_head(NodeImport& node) {
  want_inputs(node, {0}, 10);
  if (node.has(8) || node.has(9)) return node.unsupported("buffers that past and present share");
  convert(node, {3, 4, 5, 6, 7});
}
TENON_IMPORT(multi_head, "com.microsoft:MultiHeadAttention");

void masked(NodeImport& node) {
  want_inputs(node, {0}, 11);
  if (node.integer("past_present_share_buffer", 0) || node.has(7) || node.has(8) || node.has(9))
    return node.unsupported("buffers that past and present share");
  convert(node, {10, 3, 4, 5, 6});
}
TENON_IMPORT(masked, "com.microsoft:DecoderMaskedMultiHeadAttention");

}  // namespace
}  // namespace tenon::onnx::microsoft_multi_head
