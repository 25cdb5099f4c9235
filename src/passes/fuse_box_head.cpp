// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Walks from a node back to its origins, each found node checked to serve nothing else.
class BoxHeadMatcher {
 public:
  BoxHeadMatcher(const ir::Graph& graph, const ir::Node& last) : graph_(graph), last_(last), origins_(last.origins) {}

  /// Inputs of a BoxHead; empty where the node ends none.
  std::vector<ir::ValueId> inputs() {
    if (last_.op != "Transpose" || last_.integers("perm") != std::vector<int64_t>{0, 2, 1}) return {};
    const ir::Node* both = joins(last_.inputs[0], 2);
    if (!both || both->inputs.size() != 2) return {};
    const std::vector<ir::ValueId> scores = scores_of(both->inputs[1]);
    if (scores.empty() || !boxes_of(both->inputs[0]) || boxes_.size() != scores.size()) return {};
    const int64_t places = size(low_, 1);
    int64_t sum = 0;
    for (size_t at = 0; at < scores.size(); ++at) {
      const int64_t here = size(boxes_[at], 1);
      if (here < 0 || here != size(scores[at], 1) || size(boxes_[at], 2) != 4 * bins()) return {};
      sum += here;
    }
    if (sum != places || graph_.constant(scale_)->elements() != places) return {};
    for (ir::ValueId id : {low_, high_})
      if (graph_.constant(id)->elements() != 2 * places) return {};
    std::vector<ir::ValueId> all = boxes_;
    all.insert(all.end(), scores.begin(), scores.end());
    all.insert(all.end(), {bins_, low_, high_, scale_});
    return all;
  }
  const std::vector<std::string>& origins() const { return origins_; }

 private:
  void note(const ir::Node* node) { origins_ = joined(node->origins, origins_); }
  const ir::Node* only(ir::ValueId id, const char* op) {
    const ir::Node* node = sole(graph_, id, op);
    if (node) note(node);
    return node;
  }
  int64_t size(ir::ValueId id, size_t axis) const {
    const ir::Shape* shape = shape_of(graph_, id);
    return shape && axis < shape->size() && (*shape)[axis].is_constant() ? (*shape)[axis].value() : -1;
  }
  int64_t bins() const { return graph_.constant(bins_)->elements(); }
  bool is_f32(ir::ValueId id) const {
    const Tensor* tensor = graph_.constant(id);
    return tensor && tensor->dtype() == DType::f32;
  }

  const ir::Node* joins(ir::ValueId id, int64_t axis) {
    const ir::Node* node = sole(graph_, id, "Concat");
    const auto rank = rank_of(graph_, id);
    if (!node || !rank || *rank != 3 || axis_of(node->integer("axis", 0), 3) != static_cast<size_t>(axis))
      return nullptr;
    note(node);
    return node;
  }
  /// The parts of a list of places.
  std::vector<ir::ValueId> parts(ir::ValueId id) {
    if (const ir::Node* node = joins(id, 1)) return node->inputs;
    return {id};
  }
  std::vector<ir::ValueId> scores_of(ir::ValueId id) {
    const ir::Node* node = only(id, "Sigmoid");
    return node ? parts(node->inputs[0]) : std::vector<ir::ValueId>();
  }

  /// The other operand of a node with one constant operand.
  ir::ValueId beside_constant(const ir::Node& node, ir::ValueId& constant) const {
    for (size_t side = 0; side < 2; ++side)
      if (is_f32(node.inputs[side])) {
        constant = node.inputs[side];
        return node.inputs[1 - side];
      }
    return ir::no_value;
  }

  bool boxes_of(ir::ValueId id) {
    const ir::Node* scaled = only(id, "Mul");
    const ir::ValueId pair = scaled ? beside_constant(*scaled, scale_) : ir::no_value;
    const ir::Node* ends = pair == ir::no_value ? nullptr : joins(pair, 2);
    const ir::Node* extent = ends && ends->inputs.size() == 2 ? only(ends->inputs[1], "Sub") : nullptr;
    if (!extent) return false;
    const ir::ValueId to = extent->inputs[0], from = extent->inputs[1];
    if (!is_mean(ends->inputs[0], from, to)) return false;
    const ir::Node *lower = made_by(graph_, from, "Sub"), *upper = made_by(graph_, to, "Add");
    if (!lower || !upper || !is_f32(lower->inputs[0])) return false;
    if (graph_.value(from).users.size() != 2 || graph_.value(to).users.size() != 2) return false;
    note(lower), note(upper);
    low_ = lower->inputs[0];
    const ir::ValueId after = beside_constant(*upper, high_);
    const ir::ValueId first = slice(lower->inputs[1], 0), second = after == ir::no_value ? after : slice(after, 2);
    if (first == ir::no_value || size(first, 2) != 4) return false;
    return first == second && graph_.value(first).users.size() == 2 && distances(first);
  }
  bool is_mean(ir::ValueId id, ir::ValueId a, ir::ValueId b) {
    const auto same = [&](const ir::Node* node) {
      return (node->inputs[0] == a && node->inputs[1] == b) || (node->inputs[0] == b && node->inputs[1] == a);
    };
    if (const ir::Node* node = only(id, "tenon:Elementwise")) {
      const auto found = node->attributes.find("program");
      const auto* program =
          found == node->attributes.end() ? nullptr : std::get_if<std::vector<std::string>>(&found->second);
      return program && *program == std::vector<std::string>{"add %0 %1", "div %2 2"} && node->inputs.size() == 2 &&
             same(node);
    }
    const ir::Node* half = only(id, "Div");
    const ir::Node* sum = half && is_scalar(graph_, half->inputs[1], 2) ? only(half->inputs[0], "Add") : nullptr;
    return sum && same(sum);
  }
  /// The source of columns [begin, begin + 2).
  ir::ValueId slice(ir::ValueId id, int64_t begin) {
    const ir::Node* node = only(id, "Slice");
    if (!node || node->inputs.size() < 4) return ir::no_value;
    const auto is = [&](size_t input, int64_t number) {
      const auto list = integers(graph_, node->inputs[input]);
      return list && *list == std::vector<int64_t>{number};
    };
    if (!is(1, begin) || !is(2, begin + 2) || !(is(3, 2) || is(3, -1))) return ir::no_value;
    if (node->inputs.size() > 4 && node->inputs[4] != ir::no_value && !is(4, 1)) return ir::no_value;
    return node->inputs[0];
  }
  /// Steps over reshapes that serve nothing else.
  ir::ValueId unshaped(ir::ValueId id) {
    while (const ir::Node* node = made_by(graph_, id, "Reshape")) {
      note(node);
      id = node->inputs[0];
      if (graph_.value(id).users.size() != 1) break;
    }
    return id;
  }
  /// [N, A, 4] from logits by softmax over bins and a product by their distances.
  bool distances(ir::ValueId id) {
    const ir::Node* mean = only(unshaped(id), "Conv");
    if (!mean || mean->inputs.size() > 2 || mean->text("layout", "") != "NHWC" || mean->has("activation")) return false;
    const Tensor* weights = graph_.constant(mean->inputs[1]);
    if (!is_f32(mean->inputs[1]) || weights->dims().rank() != 4) return false;
    const Dims& dims = weights->dims();
    if (dims[0] != 1 || dims[2] != 1 || dims[3] != 1 || size(mean->inputs[0], 3) != dims[1]) return false;
    for (const char* word : {"strides", "pads"})
      for (int64_t number : mean->integers(word))
        if (number != (word[0] == 's')) return false;
    bins_ = mean->inputs[1];
    const ir::Node* softmax = only(unshaped(mean->inputs[0]), "Softmax");
    const auto rank = softmax ? rank_of(graph_, softmax->inputs[0]) : std::nullopt;
    if (!rank || axis_of(softmax->integer("axis", -1), *rank) != *rank - 1) return false;
    if (size(softmax->inputs[0], *rank - 1) != dims[1]) return false;
    boxes_ = parts(unshaped(softmax->inputs[0]));
    return rank_of(graph_, boxes_[0]) == size_t{3};
  }

  const ir::Graph& graph_;
  const ir::Node& last_;
  std::vector<std::string> origins_;
  std::vector<ir::ValueId> boxes_;
  ir::ValueId bins_ = ir::no_value, low_ = ir::no_value, high_ = ir::no_value, scale_ = ir::no_value;
};

}  // namespace

bool fuse_box_head(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    BoxHeadMatcher matcher(graph, graph.node(id));
    const std::vector<ir::ValueId> inputs = matcher.inputs();
    if (inputs.empty()) return false;
    const auto scales = static_cast<int64_t>((inputs.size() - 4) / 2);
    const std::string name = graph.value(graph.node(id).outputs[0]).name;
    replace(graph, id, graph.apply("tenon:BoxHead", inputs, {{"scales", scales}}, matcher.origins(), name));
    return true;
  });
}

}  // namespace tenon::passes
