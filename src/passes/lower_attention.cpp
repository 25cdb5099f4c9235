// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_mask = int64_t{1} << 26;  // elements of one that is made here

/// An Attention in products, a softmax and what stands between them.
class Lowering {
 public:
  Lowering(ir::Graph& graph, ir::NodeId id) : graph_(graph), id_(id), node_(graph.node(id)) {}

  bool run() {
    if (!fits()) return false;
    const ir::ValueId q = split(node_.inputs[0], q_heads_), k = joined_past(split(node_.inputs[1], kv_heads_), 4),
                      v = joined_past(split(node_.inputs[2], kv_heads_), 5);
    const ir::ValueId turned = apply("Transpose", {repeated(k, key_size_)}, {{"perm", Perm{0, 1, 3, 2}}});
    ir::ValueId scores = times(apply("MatMul", {q, turned}), scale_);
    if (cap_ > 0) scores = times(apply("Tanh", {times(scores, 1 / cap_)}), cap_);
    ir::ValueId mask = input(3);
    const bool is_given = mask != ir::no_value;
    if (is_given && graph_.value(mask).dtype == DType::boolean) mask = hidden_unless(mask);
    if (is_bounded()) mask = is_given ? apply("Add", {mask, bounds()}) : bounds();
    if (mask != ir::no_value) scores = apply("Add", {scores, mask});
    ir::ValueId weights = apply("Softmax", {scores}, {{"axis", int64_t{-1}}});
    // A query that may look nowhere gives zeros.
    if (is_given || left_ >= 0 || right_ >= 0)
      weights = apply("Where", {apply("IsNaN", {weights}), number(0), weights});
    ir::ValueId result = apply("MatMul", {weights, repeated(v, value_size_)});
    if (is_joined_)
      result = reshaped(apply("Transpose", {result}, {{"perm", Perm{0, 2, 1, 3}}}), {0, 0, -1}, ".joined");
    if (wants(1)) graph_.replace_uses(node_.outputs[1], k);
    if (wants(2)) graph_.replace_uses(node_.outputs[2], v);
    replace(graph_, id_, result);
    return true;
  }

 private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();

  ir::ValueId input(size_t at) const { return at < node_.inputs.size() ? node_.inputs[at] : ir::no_value; }
  bool wants(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != ir::no_value; }
  bool is_bounded() const { return causal_ || left_ >= 0 || right_ >= 0; }

  /// Whether it can be spelled out: in f32, with heads and what bounds depend on known.
  bool fits() {
    const ir::Shape *q = shape_of(graph_, input(0)), *k = shape_of(graph_, input(1)), *v = shape_of(graph_, input(2));
    if (node_.op != "Attention" || !q || !k || !v || wants(3) || input(6) != ir::no_value) return false;
    for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{5}})
      if (input(at) != ir::no_value && graph_.value(input(at)).dtype != DType::f32) return false;
    const int64_t precision = node_.integer("softmax_precision", 0);
    if (precision != 0 && precision != static_cast<int64_t>(DType::f32)) return false;
    const size_t rank = q->size();
    is_joined_ = rank == 3;
    if (!is_joined_ && (!(*q)[1].is_constant() || !(*k)[1].is_constant())) return false;
    q_heads_ = is_joined_ ? node_.integer("q_num_heads", 0) : (*q)[1].value();
    kv_heads_ = is_joined_ ? node_.integer("kv_num_heads", 0) : (*k)[1].value();
    if (q_heads_ < 1 || kv_heads_ < 1 || q_heads_ % kv_heads_) return false;
    const auto size_of_head = [&](const ir::Shape& shape) {
      return shape.back().is_constant() ? shape.back().value() / (is_joined_ ? kv_heads_ : 1) : 0;
    };
    key_size_ = size_of_head(*k), value_size_ = size_of_head(*v);
    if (q_heads_ != kv_heads_ && (key_size_ < 1 || value_size_ < 1)) return false;
    const ir::Shape* past = shape_of(graph_, input(4));
    if (input(4) != ir::no_value && !past) return false;
    const ir::Dim total = past ? (*k)[rank - 2] + (*past)[2] : (*k)[rank - 2];
    if (node_.has("scale")) scale_ = node_.real("scale", 1);
    else if (q->back().is_constant())
      scale_ = 1 / std::sqrt(static_cast<float>(q->back().value() / (is_joined_ ? q_heads_ : 1)));
    else return false;
    cap_ = node_.real("softcap", 0);
    causal_ = node_.integer("is_causal", 0) != 0;
    left_ = node_.integer("left_window_size", -1), right_ = node_.integer("right_window_size", -1);
    if (const ir::ValueId mask = input(3); mask != ir::no_value) {
      const ir::Shape* sizes = shape_of(graph_, mask);
      const DType type = graph_.value(mask).dtype;
      if (!sizes || sizes->empty() || !(sizes->back() == total) || (type != DType::f32 && type != DType::boolean))
        return false;
    }
    if (!is_bounded()) return true;
    if (!(*q)[rank - 2].is_constant() || !total.is_constant() || (past && !(*past)[2].is_constant())) return true;
    queries_ = (*q)[rank - 2].value(), keys_ = total.value(), offset_ = past ? (*past)[2].value() : 0;
    is_known_ = queries_ * keys_ <= most_mask;
    return true;
  }

  ir::ValueId apply(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return graph_.apply(op, std::move(inputs), std::move(attributes), node_.origins, name());
  }
  std::string name() const { return graph_.value(node_.outputs[0]).name; }
  ir::ValueId number(float value) { return constant(graph_, name() + ".number", Dims{}, {value}); }
  ir::ValueId times(ir::ValueId value, float factor) {
    return factor == 1 ? value : apply("Mul", {value, number(factor)});
  }
  ir::ValueId reshaped(ir::ValueId value, const std::vector<int64_t>& sizes, const char* suffix) {
    return apply("Reshape", {value, constant(graph_, name() + suffix, sizes)});
  }

  ir::ValueId split(ir::ValueId value, int64_t heads) {
    if (!is_joined_) return value;
    return apply("Transpose", {reshaped(value, {0, 0, heads, -1}, ".heads")}, {{"perm", Perm{0, 2, 1, 3}}});
  }
  ir::ValueId joined_past(ir::ValueId value, size_t past) {
    return input(past) == ir::no_value ? value : apply("Concat", {input(past), value}, {{"axis", int64_t{2}}});
  }
  /// Each head of keys or values for all the heads of queries that share it.
  ir::ValueId repeated(ir::ValueId value, int64_t size) {
    const int64_t share = q_heads_ / kv_heads_;
    if (share == 1) return value;
    const ir::ValueId shares = constant(graph_, name() + ".share", std::vector<int64_t>{1, 1, share, 1, 1});
    const ir::ValueId one = apply("Unsqueeze", {value, constant(graph_, name() + ".axis", std::vector<int64_t>{2})});
    return reshaped(apply("Expand", {one, shares}), {0, q_heads_, -1, size}, ".all");
  }

  ir::ValueId hidden_unless(ir::ValueId visible) { return apply("Where", {visible, number(0), number(-infinity)}); }
  ir::ValueId integer(int64_t value) {
    return graph_.add_constant(name() + ".integer", Tensor::of<int64_t>(DType::i64, Dims{}, std::span(&value, 1)));
  }

  /// The size of an axis, of the first input of the graph that has it where it is free: so all layers share what is
  /// made of it.
  ir::ValueId size_of(ir::ValueId value, size_t axis) {
    const ir::Dim wanted = (*shape_of(graph_, value))[axis];
    if (wanted.is_constant()) return integer(wanted.value());
    for (const ir::ValueId other : graph_.inputs) {
      const ir::Shape* shape = shape_of(graph_, other);
      for (size_t at = 0; shape && at < shape->size(); ++at)
        if ((*shape)[at] == wanted)
          return apply("Gather", {apply("Shape", {other}), integer(static_cast<int64_t>(at))});
    }
    return apply("Gather", {apply("Shape", {value}), integer(static_cast<int64_t>(axis))});
  }
  ir::ValueId count_up(ir::ValueId from, ir::ValueId to) { return apply("Range", {from, to, integer(1)}); }

  /// The same as below where sizes are free.
  ir::ValueId free_bounds() {
    const size_t rank = shape_of(graph_, input(0))->size();
    const ir::ValueId before = input(4) == ir::no_value ? integer(0) : size_of(input(4), 2);
    const ir::ValueId columns = count_up(integer(0), apply("Add", {before, size_of(input(1), rank - 2)}));
    const ir::ValueId places = count_up(before, apply("Add", {before, size_of(input(0), rank - 2)}));
    const ir::ValueId rows = apply("Unsqueeze", {places, constant(graph_, name() + ".axis", std::vector<int64_t>{1})});
    const auto real = [&](ir::ValueId places) {
      return apply("Cast", {places}, {{"to", static_cast<int64_t>(DType::f32)}});
    };
    // How far a query may still look beyond a key, at least 1 where it sees that: 1 - 1 / 1, else 1 - 1 / 0.
    const ir::ValueId behind = apply("Sub", {real(rows), real(columns)});
    ir::ValueId seen = ir::no_value;
    const auto bound = [&](ir::ValueId room) { seen = seen == ir::no_value ? room : apply("Min", {seen, room}); };
    const int64_t ahead = causal_ ? 0 : right_;
    if (ahead >= 0) bound(apply("Add", {behind, number(static_cast<float>(ahead) + 1)}));
    if (left_ >= 0) bound(apply("Sub", {number(static_cast<float>(left_) + 1), behind}));
    return apply("Sub", {number(1), apply("Reciprocal", {apply("Clip", {seen, number(0), number(1)})})});
  }

  /// 0 where a query may look, minus infinity elsewhere.
  ir::ValueId bounds() {
    if (!is_known_) return free_bounds();
    std::vector<float> list(static_cast<size_t>(queries_ * keys_), 0.f);
    for (int64_t i = 0; i < queries_; ++i)
      for (int64_t j = 0; j < keys_; ++j) {
        const int64_t ahead = j - (i + offset_);
        if ((causal_ && ahead > 0) || (left_ >= 0 && -ahead > left_) || (right_ >= 0 && ahead > right_))
          list[static_cast<size_t>(i * keys_ + j)] = -infinity;
      }
    return constant(graph_, name() + ".bounds", {queries_, keys_}, list);
  }

  ir::Graph& graph_;
  const ir::NodeId id_;
  const ir::Node node_;
  bool is_joined_ = false, causal_ = false, is_known_ = false;  // known: the sizes of bounds
  int64_t q_heads_ = 0, kv_heads_ = 0, key_size_ = 0, value_size_ = 0, left_ = -1, right_ = -1, queries_ = 0, keys_ = 0,
          offset_ = 0;
  float scale_ = 1, cap_ = 0;
};

}  // namespace

bool lower_attention(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return graph.node(id).op == "Attention" && Lowering(graph, id).run(); });
}

}  // namespace tenon::passes
