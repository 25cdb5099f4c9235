// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// com.microsoft's rotary embedding: the standard's, with positions before the tables and a first position for all.
namespace tenon::onnx::microsoft_rotary {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:RotaryEmbedding",
             {flag("interleaved"), integer("num_heads").at_least(0), integer("rotary_embedding_dim").at_least(0),
              real("scale"), integer("is_packed_batching")});

void convert(NodeImport& node) {
  enum : size_t { x, places, cosines, sines };
  want_inputs(node, {x, places, cosines, sines}, 4);
  if (node.real("scale", 1) != 1) return node.unsupported("scale");
  if (node.integer("is_packed_batching", 0)) return node.unsupported("is_packed_batching");
  const auto rank = node.rank(node.input(x)), of_places = node.rank(node.input(places));
  if (!rank || !of_places) return node.unsupported("operands of unknown rank");
  ir::ValueId at = cast(node, node.input(places), DType::i64);
  if (*of_places < 2) {
    const ir::ValueId batch = size_of(node, node.input(x), 0),
                      length = size_of(node, node.input(x), *rank == 4 ? 2 : 1);
    const ir::ValueId row = node.add("Add", {count_up(node, length), reshaped(node, at, {1})});
    at = node.add("Expand", {row, node.add("Concat", {batch, length}, {{"axis", int64_t{0}}})});
  }
  ir::Attributes attributes{{"interleaved", node.integer("interleaved", 0)},
                            {"rotary_embedding_dim", node.integer("rotary_embedding_dim", 0)}};
  int64_t heads = node.integer("num_heads", 0);
  if (*rank == 3 && (heads == 0 || node.integer("rotary_embedding_dim", 0) == 0)) {
    // Heads are as large as the tables say.
    const auto width = node.size(node.input(x), -1), half = node.size(node.input(cosines), -1);
    if (!width || !half || *half < 1) return node.unsupported("heads of unknown size");
    heads = *width / (2 * *half);
  }
  if (*rank == 3) attributes["num_heads"] = heads;
  become(node, "RotaryEmbedding", {node.input(x), node.input(cosines), node.input(sines), at}, attributes);
}
TENON_IMPORT(convert, "com.microsoft:RotaryEmbedding");

}  // namespace
}  // namespace tenon::onnx::microsoft_rotary
