// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "onnx/heads.h"

/// com.microsoft's GroupQueryAttention, the step of a decoder with its cache: rotary embedding, the cache with what is
/// new in it, and attention of queries to the keys up to their own place.
namespace tenon::onnx::microsoft_grouped_query {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:GroupQueryAttention",
             {integer("num_heads").at_least(1).required(), integer("kv_num_heads").at_least(1).required(),
              real("scale"), real("softcap"), flag("do_rotary"), flag("rotary_interleaved"), flag("causal"),
              integer("local_window_size"), integer("smooth_softmax"), integer("qk_output"),
              flag("sliding_window_cache"), integer("kv_cache_bit_width"), text("k_quant_type"), text("v_quant_type"),
              real("qk_norm_epsilon"), real("q_norm_epsilon"), real("k_norm_epsilon")});

enum Input : size_t {
  query,
  key,
  value,
  past_key,
  past_value,
  lengths,
  total,
  cosines,
  sines,
  positions,
  added,
  sink,
  k_scale,
  v_scale,
  q_norm,
  k_norm,
  query_lengths
};

class Step {
 public:
  explicit Step(NodeImport& node)
      : node_(node), heads_(node.integer("num_heads", 1)), kv_heads_(node.integer("kv_num_heads", 1)) {}

  void convert() {
    want_inputs(node_, {query, lengths, total}, 17);
    if (const char* reason = refused()) return node_.unsupported(reason);
    if (!split()) return node_.unsupported("heads of unknown size");
    queries_ = size_of(node_, node_.input(query), 1);
    const ir::ValueId all = reshaped(node_, cast(node_, node_.input(lengths), DType::i64), {-1});
    const ir::ValueId ends = node_.add("Add", {all, node_.integers({1})});
    before_ = node_.add("Max", {node_.add("Sub", {ends, queries_}), node_.integers({0})});
    norm_and_turn();
    const ir::ValueId keys = cached(apart(k_, kv_heads_), past_key), values = cached(apart(v_, kv_heads_), past_value);
    Heads heads{apart(q_, heads_), keys, values, heads_, kv_heads_};
    heads.softcap = node_.real("softcap", 0);
    if (node_.real("scale", 0) != 0) heads.scale = node_.real("scale", 1);
    else heads.scale = 1 / std::sqrt(static_cast<float>(size_));
    heads.mask = mask(keys);
    if (node_.has(sink) || node_.integer("smooth_softmax", 0) > 0) add_sink(heads);
    const ir::ValueId y = transposed(node_, attend(node_, heads, Wanted::result).y, {0, 2, 1, 3});
    node_.bind(0, reshaped(node_, y, {0, 0, heads_ * size_}));
    node_.bind(1, keys);
    node_.bind(2, values);
  }

 private:
  const char* refused() const {
    if (node_.has(k_scale) || node_.has(v_scale) || node_.text("k_quant_type", "NONE") != "NONE" ||
        node_.text("v_quant_type", "NONE") != "NONE")
      return "a quantised cache";
    if (node_.integer("sliding_window_cache", 0)) return "sliding_window_cache";
    if (node_.has(query_lengths)) return "query_seqlens";
    if (node_.wants(3)) return "scores as an output";
    if (node_.has(past_key) != node_.has(past_value)) return "past keys without past values";
    if (node_.integer("do_rotary", 0) && (!node_.has(cosines) || !node_.has(sines))) return "do_rotary without tables";
    return nullptr;
  }

  /// Queries, keys and values, each [batch, queries, heads * size].
  bool split() {
    const bool is_packed = !node_.has(key);
    if (is_packed == node_.has(value)) node_.fail("keys and values go together");
    if (heads_ % kv_heads_) node_.fail("kv_num_heads does not divide num_heads");
    const auto width = node_.size(node_.input(query), -1);
    if (!width) return false;
    const int64_t all = is_packed ? heads_ + 2 * kv_heads_ : heads_;
    if (*width % all) node_.fail("heads do not divide a hidden size of " + std::to_string(*width));
    size_ = *width / all;
    q_ = node_.input(query), k_ = node_.input(key), v_ = node_.input(value);
    if (!is_packed) return true;
    const std::vector<int64_t> sizes{heads_ * size_, kv_heads_ * size_, kv_heads_ * size_};
    const ir::ValueId packed = q_;
    q_ = piece(node_, packed, sizes, 0), k_ = piece(node_, packed, sizes, 1), v_ = piece(node_, packed, sizes, 2);
    return true;
  }

  ir::ValueId normal(ir::ValueId x, ir::ValueId weights, const char* own) {
    const float epsilon = node_.real(own, node_.real("qk_norm_epsilon", 1e-6f));
    const ir::ValueId rows = reshaped(node_, x, {0, 0, -1, size_});
    return reshaped(node_, node_.add("RMSNormalization", {rows, weights}, {{"epsilon", epsilon}}), {0, 0, -1});
  }
  ir::ValueId turned(ir::ValueId x, int64_t count, ir::ValueId at) {
    ir::Attributes attributes{{"num_heads", count}, {"interleaved", node_.integer("rotary_interleaved", 0)}};
    const auto half = node_.size(node_.input(cosines), -1);
    if (half && 2 * *half < size_) attributes["rotary_embedding_dim"] = 2 * *half;
    return node_.add("RotaryEmbedding", {x, node_.input(cosines), node_.input(sines), at}, attributes);
  }
  void norm_and_turn() {
    if (node_.has(q_norm)) q_ = normal(q_, node_.input(q_norm), "q_norm_epsilon");
    if (node_.has(k_norm)) k_ = normal(k_, node_.input(k_norm), "k_norm_epsilon");
    // The place of each query: [batch, queries].
    places_ = node_.add("Add", {unsqueezed(node_, before_, {1}), count_up(node_, queries_)});
    if (!node_.integer("do_rotary", 0)) return;
    const ir::ValueId at = node_.has(positions) ? cast(node_, node_.input(positions), DType::i64) : places_;
    q_ = turned(q_, heads_, at);
    k_ = turned(k_, kv_heads_, at);
  }

  /// [batch, heads, queries, size].
  ir::ValueId apart(ir::ValueId x, int64_t count) {
    return transposed(node_, reshaped(node_, x, {0, 0, count, size_}), {0, 2, 1, 3});
  }

  /// The cache with what is new behind what each of the batch has. One of which all sizes are known, and that has room,
  /// keeps its size; any other grows by what is new.
  ir::ValueId cached(ir::ValueId fresh, Input past) {
    const ir::ValueId before = node_.input(past);
    const auto room = node_.size(before, 2), wanted = node_.known_integer(node_.input(total));
    if (before == ir::no_value || room == 0) return fresh;
    if (!room || !wanted || *wanted > *room) {
      const auto more = room && wanted ? std::optional(*wanted - *room) : std::nullopt;
      const ir::ValueId behind = more ? sliced(node_, fresh, 2, 0, *more) : fresh;
      const ir::ValueId all = node_.add("Concat", {before, behind}, {{"axis", int64_t{2}}});
      if (node_.size(fresh, 0) == 1) return all;
      return placed(all, fresh);
    }
    return placed(before, fresh);
  }
  ir::ValueId placed(ir::ValueId cache, ir::ValueId fresh) {
    return node_.add("TensorScatter", {cache, fresh, before_}, {{"axis", int64_t{2}}});
  }

  /// How many keys there are, in terms of inputs that all layers share.
  ir::ValueId count_of(ir::ValueId keys) {
    if (node_.size(keys, 2) || !node_.has(past_key)) return size_of(node_, keys, 2);
    return node_.add("Add", {size_of(node_, node_.input(past_key), 2), queries_});
  }

  /// What is added to scores [batch, heads, queries, keys]: 1 - 1 / 1 for a key that a query sees, 1 - 1 / 0 for
  /// others.
  ir::ValueId mask(ir::ValueId keys) {
    const auto real = [&](ir::ValueId places) { return cast(node_, places, DType::f32); };
    const ir::ValueId count = count_of(keys), columns = real(count_up(node_, count));
    const ir::ValueId one = node_.scalar_like(1, columns), none = node_.scalar_like(0, columns);
    ir::ValueId seen;
    if (node_.integer("causal", 1)) {
      const ir::ValueId rows = real(unsqueezed(node_, places_, {1, 3})), ahead = node_.add("Sub", {rows, columns});
      seen = node_.add("Add", {ahead, one});
      if (const int64_t window = node_.integer("local_window_size", -1); window > 0) {
        const ir::ValueId last = node_.scalar_like(static_cast<float>(window), columns);
        seen = node_.add("Min", {seen, node_.add("Sub", {last, ahead})});
      }
    } else {
      const ir::ValueId ends = real(node_.add("Add", {before_, queries_}));
      seen = node_.add("Sub", {unsqueezed(node_, ends, {1, 2, 3}), columns});
    }
    const ir::ValueId hidden = node_.add("Sub", {one, node_.add("Reciprocal", {node_.add("Clip", {seen, none, one})})});
    return both(node_, cast_like(node_, hidden, q_), fitted(node_, node_.input(added), queries_, count));
  }

  /// One more key, whose score is a number of its head, and whose value is nothing.
  void add_sink(Heads& heads) {
    const ir::ValueId end = node_.integers({0, 0, 0, 0, 0, 0, 1, 0}), column = node_.integers({0, 0, 0, 0, 0, 0, 0, 1});
    const ir::ValueId keys = size_of(node_, heads.k, 2);
    heads.k = node_.add("Pad", {heads.k, end}), heads.v = node_.add("Pad", {heads.v, end});
    heads.mask = node_.add("Pad", {heads.mask, column});
    if (!node_.has(sink)) return;
    const ir::ValueId pads =
        node_.add("Concat", {node_.integers({0, 0, 0}), keys, node_.integers({0, 0, 0, 0})}, {{"axis", int64_t{0}}});
    const ir::ValueId score = reshaped(node_, cast_like(node_, node_.input(sink), q_), {1, heads_, 1, 1});
    heads.mask = node_.add("Add", {heads.mask, node_.add("Pad", {score, pads})});
  }

  NodeImport& node_;
  const int64_t heads_, kv_heads_;
  int64_t size_ = 0;  // of a head
  ir::ValueId q_ = ir::no_value, k_ = ir::no_value, v_ = ir::no_value;
  ir::ValueId queries_ = ir::no_value;  // how many, as a list
  ir::ValueId before_ = ir::no_value;   // how many keys each of the batch has already: [batch]
  ir::ValueId places_ = ir::no_value;
};

void convert(NodeImport& node) { Step(node).convert(); }
TENON_IMPORT(convert, "com.microsoft:GroupQueryAttention");

}  // namespace
}  // namespace tenon::onnx::microsoft_grouped_query
