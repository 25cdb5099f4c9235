// SPDX-License-Identifier: Apache-2.0
#include "onnx/heads.h"

namespace tenon::onnx {

Attended attend(NodeImport& node, const Heads& heads, Wanted wanted) {
  std::vector<ir::ValueId> inputs{heads.q, heads.k, heads.v, heads.mask, heads.past_k, heads.past_v};
  while (inputs.back() == ir::no_value) inputs.pop_back();
  ir::Attributes attributes;
  if (heads.causal) attributes["is_causal"] = int64_t{1};
  if (heads.scale) attributes["scale"] = *heads.scale;
  if (heads.softcap > 0) attributes["softcap"] = heads.softcap;
  if (node.rank(heads.q) != 4u) attributes["q_num_heads"] = heads.count, attributes["kv_num_heads"] = heads.kv_count;
  if (wanted == Wanted::result) return {node.add("Attention", inputs, attributes)};
  std::vector<ir::ValueId> made;
  for (const char* part : {"/result", "/present_key", "/present_value"})
    made.push_back(node.graph().add_value(node.label() + part));
  if (wanted == Wanted::scores) {
    made.push_back(node.graph().add_value(node.label() + "/scores"));
    attributes["qk_matmul_output_mode"] = heads.scores;
  }
  Attended attended{made[0], made[1], made[2], made.size() > 3 ? made[3] : ir::no_value};
  node.graph().add_node("Attention", std::move(inputs), std::move(made), std::move(attributes), {node.label()});
  return attended;
}

ir::ValueId added_mask(NodeImport& node, ir::ValueId visible, float otherwise, ir::ValueId like) {
  return node.add("Where", {visible, node.scalar_like(0, like), node.scalar_like(otherwise, like)});
}

ir::ValueId visible_keys(NodeImport& node, ir::ValueId mask, ir::ValueId keys, ir::ValueId x) {
  const auto rank = node.rank(mask);
  if (!rank || *rank < 1 || *rank > 3) return ir::no_value;
  if (*rank > 1) {
    const ir::ValueId set = node.add("Greater", {cast(node, mask, DType::i64), node.scalar(0)});
    const ir::ValueId four = unsqueezed(node, set, *rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
    return fitted(node, four, *rank == 2 ? node.integers({1}) : size_of(node, x, 1), keys);
  }
  const ir::ValueId numbers = cast(node, mask, DType::i64), places = count_up(node, keys);
  const auto column = [&](ir::ValueId list) { return reshaped(node, list, {-1, 1, 1, 1}); };
  if (node.same_size(mask, 0, x, 0)) return node.add("Less", {places, column(numbers)});
  const auto size = node.size(mask, 0), batch = node.size(x, 0);
  if (size && batch && *size != *batch && *size != 2 * *batch) return ir::no_value;
  // Whether there are beginnings is left to sizes: zeros stand behind the list.
  const ir::ValueId count = size_of(node, x, 0), twice = node.add("Mul", {count, node.integers({2})});
  const ir::ValueId zeros = node.add("Expand", {node.integers({0}), count});
  const ir::ValueId all = node.add("Concat", {numbers, zeros}, {{"axis", int64_t{0}}});
  const ir::ValueId ends = node.add("Slice", {all, node.integers({0}), count, node.integers({0})});
  const ir::ValueId begins = node.add("Slice", {all, count, twice, node.integers({0})});
  return node.add("And",
                  {node.add("Less", {places, column(ends)}), node.add("GreaterOrEqual", {places, column(begins)})});
}

ir::ValueId fitted(NodeImport& node, ir::ValueId added, ir::ValueId queries, ir::ValueId keys) {
  if (added == ir::no_value || node.rank(added) != 4u || node.has_size(added, -1, keys)) return added;
  const ir::ValueId sizes = node.add("Concat", {node.integers({0, 0}), queries, keys}, {{"axis", int64_t{0}}});
  return node.add("Reshape", {added, sizes});
}

ir::ValueId both(NodeImport& node, ir::ValueId one, ir::ValueId other) {
  return one == ir::no_value ? other : plus(node, one, other);
}

ir::ValueId piece(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& sizes, size_t at) {
  if (value == ir::no_value) return value;
  int64_t begin = 0;
  for (size_t before = 0; before < at; ++before) begin += sizes[before];
  return sliced(node, value, -1, begin, begin + sizes[at]);
}

ir::ValueId sum_of_sizes(NodeImport& node, ir::ValueId a, ir::ValueId b) { return node.add("Add", {a, b}); }

}  // namespace tenon::onnx
