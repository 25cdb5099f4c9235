// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "onnx/parts.h"

/// What the attention operators of com.microsoft share: all become Attention of the standard.
namespace tenon::onnx {

/// Attention as the standard has it.
struct Heads {
  ir::ValueId q, k,
      v;  // all of three axes, [batch, length, heads * size], or all of four, [batch, heads, length, size]
  int64_t count, kv_count;                                   // heads of queries, and of keys and values
  ir::ValueId past_k = ir::no_value, past_v = ir::no_value;  // [batch, heads, length, size]
  ir::ValueId mask = ir::no_value;                           // added to the scores
  bool causal = false;
  std::optional<float> scale = std::nullopt;
  float softcap = 0;
  int64_t scores = 3;  // which of the scores are wanted: 0 of the products, 3 after the softmax
};

/// Results; no_value where they were not asked for.
struct Attended {
  ir::ValueId y, k = ir::no_value, v = ir::no_value, scores = ir::no_value;
};
enum class Wanted : uint8_t { result, present, scores };
Attended attend(NodeImport& node, const Heads& heads, Wanted wanted);

/// 0 where a boolean mask is true, `otherwise` elsewhere, in the type of `like`.
ir::ValueId added_mask(NodeImport& node, ir::ValueId visible, float otherwise, ir::ValueId like);
/// Which keys a padding mask of integers leaves, as a boolean mask for scores [batch, heads, queries, keys]. Its rank
/// says what it is: [batch], how many keys there are, or [2 * batch], these and then where they begin; [batch, keys];
/// [batch, queries, keys]. `keys` is a list of one i64, `x` has the batch first. no_value where that is not known.
ir::ValueId visible_keys(NodeImport& node, ir::ValueId mask, ir::ValueId keys, ir::ValueId x);
/// What is added to scores [batch, heads, queries, keys], as one of four axes whose last two sizes are those: which
/// files call by names of their own.
ir::ValueId fitted(NodeImport& node, ir::ValueId added, ir::ValueId queries, ir::ValueId keys);
/// The sum of what is added to scores, either of which may be absent.
ir::ValueId both(NodeImport& node, ir::ValueId one, ir::ValueId other);

/// Part `at` of a last axis that is cut into pieces of these sizes.
ir::ValueId piece(NodeImport& node, ir::ValueId value, const std::vector<int64_t>& sizes, size_t at);
/// The sum of two lists of one size each.
ir::ValueId sum_of_sizes(NodeImport& node, ir::ValueId a, ir::ValueId b);

}  // namespace tenon::onnx
