// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_joined_columns = 160;            // of queries and keys, with those that biases become
constexpr int64_t most_marks = int64_t{1} << 22;        // elements of the columns that keys get
constexpr double least_scale = 1e-6, most_scale = 1e6;  // that biases may be divided by

/// A sum of all inputs: an Add, or a program of additions that takes each once.
bool is_sum(const ir::Node& node) {
  if (node.op == "Add") return true;
  const auto found = node.attributes.find("program");
  if (node.op != "tenon:Elementwise" || found == node.attributes.end()) return false;
  const auto* lines = std::get_if<std::vector<std::string>>(&found->second);
  if (!lines || lines->size() + 1 != node.inputs.size()) return false;
  std::vector<std::string> operands;
  for (const std::string& line : *lines) {
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (line.substr(0, first) != "add" || second == std::string::npos) return false;
    operands.push_back(line.substr(first + 1, second - first - 1)), operands.push_back(line.substr(second + 1));
  }
  std::sort(operands.begin(), operands.end());
  std::vector<std::string> all;
  for (size_t at = 0; at < operands.size(); ++at) all.push_back("%" + std::to_string(at));
  std::sort(all.begin(), all.end());
  return operands == all;
}

int64_t product_of(const ir::Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t at = begin; at < end; ++at) product *= shape[at].value();
  return product;
}

/// Biases of attention's scores that depend on the query and on a part of the key's place, such as its row in an image,
/// are scores themselves: of the biases as more columns of the queries, and of columns of the keys that mark the place.
class Biases {
 public:
  Biases(ir::Graph& graph, ir::NodeId softmax) : graph_(graph), softmax_(softmax) {}

  bool run() {
    if (!find() || !is_read_by_product() || !sort_addends()) return false;
    name_ = graph_.value(product_.outputs[0]).name;
    find_scale();
    const ir::Shape of_queries = *shape_of(graph_, queries_);
    std::vector<ir::ValueId> queries{queries_};
    for (const Addend& addend : addends_) queries.push_back(columns_of(addend));
    // Keys are 0 in the columns that fill a tile, so that it does not matter what queries are there.
    if (fill_ > 0) queries.push_back(slice(queries_, fill_));
    ir::Shape wide = of_queries;
    wide.back() = ir::Dim(columns_);
    const ir::Attributes last{{"axis", static_cast<int64_t>(wide.size()) - 1}};
    const ir::ValueId q = typed("Concat", queries, last, wide);
    wide[wide.size() - 2] = ir::Dim(keys_of_head_);
    const ir::ValueId k = typed("Concat", {keys(), graph_.add_constant(name_ + ".marks", marks())}, last, wide);
    std::swap(wide[wide.size() - 1], wide[wide.size() - 2]);
    const ir::ValueId turned = typed("Transpose", {k}, {{"perm", swapped(wide.size())}}, wide);
    ir::ValueId scores = typed("MatMul", {q, turned}, {}, scores_);
    if (scale_ != 1)
      scores =
          typed("Mul", {scores, constant(graph_, name_ + ".scale", Dims(), {static_cast<float>(scale_)})}, {}, scores_);
    graph_.set_input(softmax_, 0, scores);
    return true;
  }

 private:
  struct Addend {
    ir::ValueId value;
    std::vector<size_t> axes;  // of the key's place that it depends on
    int64_t columns;
  };

  ir::ValueId typed(const char* op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes,
                    const ir::Shape& shape) {
    const ir::ValueId made = graph_.apply(op, inputs, attributes, origins_, name_);
    graph_.value(made).dtype = DType::f32, graph_.value(made).shape = shape;
    return made;
  }

  /// softmax(reshape(reshape(queries x keys) + biases)), of which all sizes are known and nothing serves others.
  bool find() {
    const ir::Node& softmax = graph_.node(softmax_);
    if (softmax.op != "Softmax" || graph_.value(softmax.outputs[0]).dtype != DType::f32) return false;
    const ir::Shape* scores = shape_of(graph_, softmax.inputs[0]);
    if (!scores || scores->size() < 3 || scores->size() > 4 || !ir::is_constant(*scores) ||
        axis_of(softmax.integer("axis", -1), scores->size()) != scores->size() - 1)
      return false;
    const ir::Node* joins = sole(graph_, softmax.inputs[0], "Reshape");
    const ir::Node* sum = joins ? graph_.producer(joins->inputs[0]) : nullptr;
    if (!sum || !is_sum(*sum) || graph_.only_user(joins->inputs[0]) == ir::no_node) return false;
    const ir::Shape* split = shape_of(graph_, joins->inputs[0]);
    if (!split || !ir::is_constant(*split)) return false;
    scores_ = *scores, split_ = *split;
    origins_ = joined(sum->origins, joins->origins);
    for (const ir::ValueId input : sum->inputs) {
      const ir::Node* splits = sole(graph_, input, "Reshape");
      const ir::Node* product = splits ? sole(graph_, splits->inputs[0], "MatMul") : nullptr;
      const bool is_product = product && product->inputs.size() == 2 && !product->has("activation") &&
                              same_shape(graph_, splits->inputs[0], softmax.inputs[0]) &&
                              same_shape(graph_, input, joins->inputs[0]);
      if (is_product && product_.outputs.empty()) product_ = *product;
      else addends_.push_back({input, {}, 1});
    }
    if (product_.outputs.empty()) return false;
    origins_ = joined(product_.origins, origins_);
    queries_ = product_.inputs[0];
    return true;
  }

  /// Whether the softmax gives the weights of values alone: the rest of what attention is.
  bool is_read_by_product() const {
    const ir::ValueId weights = graph_.node(softmax_).outputs[0];
    const ir::NodeId user = graph_.only_user(weights);
    return user != ir::no_node && graph_.node(user).op == "MatMul" && graph_.node(user).inputs[0] == weights &&
           !graph_.constant(graph_.node(user).inputs[1]);
  }

  /// What each bias depends on; false where one is no set of few columns.
  bool sort_addends() {
    const size_t batch = scores_.size() - 2;
    const int64_t rows = scores_[batch].value();
    keys_of_head_ = scores_.back().value();
    if (split_.size() <= batch || !std::equal(split_.begin(), split_.begin() + batch, scores_.begin())) return false;
    first_of_key_ = batch;
    while (first_of_key_ < split_.size() && product_of(split_, batch, first_of_key_) < rows) ++first_of_key_;
    if (product_of(split_, batch, first_of_key_) != rows ||
        product_of(split_, first_of_key_, split_.size()) != keys_of_head_)
      return false;
    const ir::Shape *q = shape_of(graph_, queries_), *k = shape_of(graph_, product_.inputs[1]);
    if (!q || !k || q->size() != scores_.size() || k->size() != scores_.size() || !q->back().is_constant())
      return false;
    if (!std::equal(q->begin(), q->begin() + batch, scores_.begin()) ||
        !std::equal(k->begin(), k->begin() + batch, scores_.begin()))
      return false;
    columns_ = q->back().value();
    for (Addend& addend : addends_) {
      const ir::Shape* shape = shape_of(graph_, addend.value);
      if (!shape || shape->size() != split_.size() || !table_of(addend.value)) return false;
      for (size_t axis = 0; axis < split_.size(); ++axis) {
        if ((*shape)[axis] == split_[axis]) {
          if (axis >= first_of_key_) addend.axes.push_back(axis), addend.columns *= split_[axis].value();
        } else if (axis < first_of_key_ || !((*shape)[axis] == ir::Dim(1))) {
          return false;
        }
      }
      columns_ += addend.columns;
    }
    if (addends_.empty() || columns_ > most_joined_columns) return false;
    const int64_t tile = columns_ > 64 ? 32 : 16;  // copied at once by kernels
    fill_ = (tile - columns_ % tile) % tile;
    if (fill_ > q->back().value()) return false;
    columns_ += fill_;
    return product_of(scores_, 0, batch) * keys_of_head_ * (columns_ - q->back().value()) <= most_marks;
  }

  /// A number that queries were multiplied by, which the scores are instead.
  void find_scale() {
    const ir::Node* scaled = sole(graph_, queries_, "Mul");
    if (!scaled) return;
    for (size_t side = 0; side < 2; ++side) {
      const auto number = scalar(graph_, scaled->inputs[side]);
      if (!number || !(*number > least_scale && *number < most_scale) ||
          !same_shape(graph_, scaled->inputs[1 - side], queries_))
        continue;
      scale_ = *number;
      origins_ = joined(scaled->origins, origins_);
      queries_ = scaled->inputs[1 - side];
      return;
    }
  }

  /// The product by a finite constant that a value is, behind reshapes and transposes: nothing in it is infinite, as
  /// masks are, which would be no numbers times the zeros of other places. nullptr where it is none.
  const ir::Node* table_of(ir::ValueId value, bool alone = false) const {
    for (int left = 8; left > 0; --left) {
      if (alone && graph_.only_user(value) == ir::no_node) return nullptr;
      const ir::Node* node = graph_.producer(value);
      if (!node) return nullptr;
      if (node->op == "Reshape" || node->op == "Transpose") {
        value = node->inputs[0];
        continue;
      }
      const Tensor* table = node->op == "MatMul" && node->inputs.size() == 2 && !node->has("activation")
                                ? graph_.constant(node->inputs[1])
                                : nullptr;
      if (!table || table->dtype() != DType::f32) return nullptr;
      return is_finite(table->values<float>()) ? node : nullptr;
    }
    return nullptr;
  }

  /// Divides such a product that nobody else reads by the scale; false where it is another.
  bool divide_table(ir::ValueId value) {
    const ir::Node* product = table_of(value, true);
    if (!product) return false;
    const Tensor& table = *graph_.constant(product->inputs[1]);
    Tensor divided(DType::f32, table.dims());
    std::transform(table.data<float>(), table.data<float>() + table.elements(), divided.data<float>(),
                   [&](float x) { return static_cast<float>(x / scale_); });
    graph_.set_input(graph_.value(product->outputs[0]).producer, 1, graph_.add_constant(name_ + ".biases", divided));
    return true;
  }

  ir::ValueId columns_of(const Addend& addend) {
    ir::ValueId value = addend.value;
    const ir::Shape from = *shape_of(graph_, value);
    if (scale_ != 1 && !divide_table(value))
      value = typed("Mul", {value, constant(graph_, name_ + ".inverse", Dims(), {static_cast<float>(1 / scale_)})}, {},
                    from);
    ir::Shape to = scores_;
    to.back() = ir::Dim(addend.columns);
    return typed("Reshape", {value, constant(graph_, name_ + ".columns", *reshape_target(from, to))}, {}, to);
  }
  ir::ValueId slice(ir::ValueId value, int64_t count) {
    ir::Shape shape = *shape_of(graph_, value);
    shape.back() = ir::Dim(count);
    return typed("Slice",
                 {value, constant(graph_, name_ + ".begin", {0}), constant(graph_, name_ + ".end", {count}),
                  constant(graph_, name_ + ".axis", {static_cast<int64_t>(shape.size()) - 1})},
                 {}, shape);
  }

  /// Keys as rows.
  ir::ValueId keys() {
    const ir::ValueId value = product_.inputs[1];
    const ir::Node* turn = made_by(graph_, value, "Transpose");
    const Perm perm = swapped(scores_.size());
    if (turn && turn->integers("perm") == perm) return turn->inputs[0];
    return typed("Transpose", {value}, {{"perm", perm}}, permuted(*shape_of(graph_, value), perm));
  }

  /// 1 in the column of a key's place along the axes of each bias.
  Tensor marks() const {
    const int64_t own = shape_of(graph_, queries_)->back().value(), width = columns_ - own;
    std::vector<float> of_head(static_cast<size_t>(keys_of_head_ * width), 0.0F);
    for (int64_t key = 0; key < keys_of_head_; ++key) {
      int64_t first = key * width;
      for (const Addend& addend : addends_) {
        int64_t column = 0;
        for (const size_t axis : addend.axes) {
          const int64_t size = split_[axis].value();
          column = column * size + key / product_of(split_, axis + 1, split_.size()) % size;
        }
        of_head[static_cast<size_t>(first + column)] = 1.0F;
        first += addend.columns;
      }
    }
    Dims dims;
    for (const ir::Dim& dim : scores_) dims.push_back(dim.value());
    dims[dims.rank() - 2] = keys_of_head_, dims[dims.rank() - 1] = width;
    Tensor all(DType::f32, dims);
    for (int64_t at = 0; at < all.elements(); at += keys_of_head_ * width)
      std::copy(of_head.begin(), of_head.end(), all.data<float>() + at);
    return all;
  }

  ir::Graph& graph_;
  const ir::NodeId softmax_;
  ir::Node product_;
  ir::ValueId queries_ = ir::no_value;
  std::vector<Addend> addends_;
  ir::Shape scores_, split_;  // of the scores, and where biases are added to them
  std::vector<std::string> origins_;
  std::string name_;
  size_t first_of_key_ = 0;  // axis of `split_`
  int64_t keys_of_head_ = 0, columns_ = 0, fill_ = 0;
  double scale_ = 1;
};

}  // namespace

bool bias_columns(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return Biases(graph, id).run(); });
}

}  // namespace tenon::passes
