// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// Whether the node takes `from` to `to` of the last axis of a value, which has `size`.
bool is_part(const ir::Graph& graph, const ir::Node& slice, int64_t from, int64_t to, int64_t size, size_t rank) {
  if (slice.inputs.size() < 4) return false;
  const auto begin = integers(graph, slice.inputs[1]), end = integers(graph, slice.inputs[2]),
             axes = integers(graph, slice.inputs[3]);
  const auto steps = slice.inputs.size() > 4 && slice.inputs[4] != ir::no_value ? integers(graph, slice.inputs[4])
                                                                                : std::vector<int64_t>{1};
  if (!begin || !end || !axes || !steps || begin->size() != 1 || axes->size() != 1 || (*steps)[0] != 1) return false;
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  return axis_of((*axes)[0], rank) == rank - 1 && place((*begin)[0]) == from && place((*end)[0]) == to;
}

/// What the two halves of a Split of the last axis, or two slices, are taken from; no_value where they are none.
ir::ValueId whole_of(const ir::Graph& graph, ir::ValueId first, ir::ValueId second, int64_t size, size_t rank) {
  const ir::Node *low = graph.producer(first), *high = graph.producer(second);
  if (!low || !high || low->inputs[0] != high->inputs[0]) return ir::no_value;
  if (low == high && low->op == "Split" && low->outputs.size() == 2 && low->outputs[0] == first &&
      axis_of(low->integer("axis", 0), rank) == rank - 1 && same_shape(graph, first, second))
    return low->inputs[0];
  const bool sliced = low->op == "Slice" && high->op == "Slice" && is_part(graph, *low, 0, size / 2, size, rank) &&
                      is_part(graph, *high, size / 2, size, size, rank);
  return sliced ? low->inputs[0] : ir::no_value;
}

/// The first half of each row of [1, 1, places, size], where the second is the same; empty where it is not.
Tensor half_of(const Tensor* table, int64_t places, int64_t size) {
  if (!table || table->dtype() != DType::f32 || table->elements() != places * size || table->dims().rank() < 2 ||
      table->dims().back() != size || table->dims()[table->dims().rank() - 2] != places)
    return {};
  Tensor half(DType::f32, {places, size / 2});
  for (int64_t row = 0; row < places; ++row) {
    const float* from = table->data<float>() + row * size;
    if (!std::equal(from, from + size / 2, from + size / 2)) return {};
    std::copy_n(from, size / 2, half.data<float>() + row * (size / 2));
  }
  return half;
}

/// x * cosines + [-x of the second half, x of the first] * sines as one node; x is heads before places. Where those
/// were transposed behind a product, the node comes before that, where its rows lie dense. Tables are constants, or
/// computed from rows that were joined to themselves.
class RotaryMatcher {
 public:
  RotaryMatcher(ir::Graph& graph, ir::NodeId id)
      : graph_(graph), id_(id), node_(graph.node(id)), origins_(node_.origins) {}

  bool run() {
    if (node_.op != "Add") return false;
    const ir::Shape* shape = shape_of(graph_, node_.outputs[0]);
    if (!shape || shape->size() != 4 || graph_.value(node_.outputs[0]).dtype != DType::f32) return false;
    shape_ = *shape, name_ = graph_.value(node_.outputs[0]).name;
    if (!shape_[1].is_constant() || !shape_[3].is_constant()) return false;
    size_ = shape_[3].value();
    if (size_ < 2 || size_ % 2) return false;
    for (size_t side = 0; side < 2; ++side)
      if (match(node_.inputs[side], node_.inputs[1 - side])) return build();
    return false;
  }

 private:
  /// Half a table: a constant, or the steps that compute it from `from`, the last one first.
  struct Half {
    Tensor constant;
    ir::ValueId from = ir::no_value;
    std::vector<ir::Node> steps;
    ir::Dim batch = 1;  // rows of places
  };

  void note(const ir::Node& node) { origins_ = joined(node.origins, origins_); }

  bool match(ir::ValueId straight, ir::ValueId turned) {
    const ir::Node *by_cosine = sole(graph_, straight, "Mul"), *by_sine = sole(graph_, turned, "Mul");
    if (!by_cosine || !by_sine) return false;
    for (size_t a = 0; a < 2; ++a)
      for (size_t b = 0; b < 2; ++b) {
        const ir::Node* join = sole(graph_, by_sine->inputs[b], "Concat");
        if (!join || join->inputs.size() != 2 || axis_of(join->integer("axis", 0), 4) != size_t{3}) continue;
        const ir::Node* minus = sole(graph_, join->inputs[0], "Neg");
        x_ = by_cosine->inputs[a];
        if (!minus || whole_of(graph_, join->inputs[1], minus->inputs[0], size_, 4) != x_) continue;
        auto cosines = half(by_cosine->inputs[1 - a]), sines = half(by_sine->inputs[1 - b]);
        if (!cosines || !sines || !cosines->constant != !sines->constant) continue;
        cosines_ = std::move(*cosines), sines_ = std::move(*sines);
        for (const ir::Node* node : {by_cosine, by_sine, join, minus}) note(*node);
        note(*graph_.producer(join->inputs[1])), note(*graph_.producer(minus->inputs[0]));
        return true;
      }
    return false;
  }

  std::optional<Half> half(ir::ValueId table) const {
    if (const Tensor* numbers = graph_.constant(table)) {
      if (!ir::is_constant(shape_)) return std::nullopt;
      Half found{half_of(numbers, shape_[2].value(), size_)};
      return found.constant ? std::optional(found) : std::nullopt;
    }
    // One row for each place, and perhaps for each of the batch, but not for each head.
    const ir::Shape* dims = shape_of(graph_, table);
    if (!dims || dims->size() < 2 || dims->size() > 4 || !(dims->back() == shape_[3])) return std::nullopt;
    if (!((*dims)[dims->size() - 2] == shape_[2])) return std::nullopt;
    if (dims->size() > 2 && !((*dims)[dims->size() - 3] == ir::Dim(1))) return std::nullopt;
    Half found;
    if (dims->size() == 4) found.batch = dims->front();
    if (!(found.batch == ir::Dim(1)) && !(found.batch == shape_[0])) return std::nullopt;
    return follow(table, found) ? std::optional(found) : std::nullopt;
  }

  /// Goes back over what keeps rows, or maps their elements one by one, to a row that is joined to itself.
  bool follow(ir::ValueId value, Half& found) const {
    for (;;) {
      const ir::Node* node = graph_.producer(value);
      const ir::Shape* dims = shape_of(graph_, value);
      if (!node || !dims || dims->empty() || !(dims->back() == shape_[3])) return false;
      if (node->op == "Concat") {
        found.from = node->inputs[0];
        return node->inputs.size() == 2 && node->inputs[1] == found.from &&
               graph_.value(found.from).dtype == DType::f32 &&
               axis_of(node->integer("axis", 0), dims->size()) == dims->size() - 1;
      }
      if (node->op != "Reshape") {
        if (!is_elementwise(*node) || node->outputs.size() != 1 || !same_shape(graph_, node->inputs[0], value))
          return false;
        for (size_t at = 1; at < node->inputs.size(); ++at)
          if (!scalar(graph_, node->inputs[at])) return false;
        found.steps.push_back(*node);
      }
      value = node->inputs[0];
    }
  }

  /// The half table as a value: [places, half] of a constant, else [batch, places, half].
  ir::ValueId computed(const Half& half, const std::string& name) {
    if (half.constant) return graph_.add_constant(name, half.constant);
    ir::ValueId value = half.from;
    ir::Shape dims = *shape_of(graph_, value);
    const auto apply = [&](const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes,
                           const std::vector<std::string>& origins) {
      value = graph_.apply(op, std::move(inputs), std::move(attributes), origins, name);
      graph_.value(value).dtype = DType::f32, graph_.value(value).shape = dims;
    };
    for (size_t at = half.steps.size(); at-- > 0;) {
      std::vector<ir::ValueId> inputs = half.steps[at].inputs;
      inputs[0] = value;
      apply(half.steps[at].op.str().c_str(), inputs, half.steps[at].attributes, half.steps[at].origins);
    }
    const ir::Shape rows{half.batch, shape_[2], size_ / 2}, whole{shape_[0], shape_[2], size_ / 2};
    if (!(dims == rows)) {
      const auto list = reshape_list(graph_, name + ".rows", dims, rows);
      if (!list) return ir::no_value;
      dims = rows, apply("Reshape", {value, *list}, {}, {});
    }
    if (!(rows == whole)) {
      const auto list = size_list(graph_, name + ".sizes", whole);
      if (!list) return ir::no_value;
      dims = whole, apply("Expand", {value, *list}, {}, {});
    }
    return value;
  }

  bool build() {
    const ir::ValueId cosines = computed(cosines_, name_ + ".cosines"), sines = computed(sines_, name_ + ".sines");
    if (cosines == ir::no_value || sines == ir::no_value) return false;
    std::vector<ir::ValueId> inputs{x_, cosines, sines};
    if (cosines_.constant) {
      Tensor positions(DType::i64, {shape_[0].value(), shape_[2].value()});
      for (int64_t at = 0; at < positions.elements(); ++at) positions.data<int64_t>()[at] = at % shape_[2].value();
      inputs.push_back(graph_.add_constant(name_ + ".positions", positions));
    }
    const ir::Shape sizes{shape_[0], shape_[2], shape_[1], shape_[3]},
        dense{shape_[0], shape_[2], shape_[1] * shape_[3]};
    const ir::Node* turn = made_by(graph_, x_, "Transpose");
    const bool swaps = turn && turn->integers("perm") == Perm{0, 2, 1, 3};
    const ir::Node* open = swaps ? made_by(graph_, turn->inputs[0], "Reshape") : nullptr;
    const ir::Shape* rows = open ? shape_of(graph_, open->inputs[0]) : nullptr;
    if (!rows || !(*rows == dense)) {
      replace(graph_, id_, graph_.apply("RotaryEmbedding", inputs, {}, origins_, name_));
      return true;
    }
    inputs[0] = open->inputs[0];
    const auto moved = joined(open->origins, turn->origins);
    const auto list = reshape_list(graph_, name_ + ".sizes", dense, sizes);
    if (!list) return false;
    const ir::ValueId turned =
        graph_.apply("RotaryEmbedding", inputs, {{"num_heads", shape_[1].value()}}, origins_, name_ + ".rows");
    const ir::ValueId opened = graph_.apply("Reshape", {turned, *list}, {}, moved, name_ + ".heads");
    replace(graph_, id_, graph_.apply("Transpose", {opened}, {{"perm", Perm{0, 2, 1, 3}}}, moved, name_));
    return true;
  }

  ir::Graph& graph_;
  const ir::NodeId id_;
  const ir::Node node_;
  std::vector<std::string> origins_;
  std::string name_;
  ir::Shape shape_;  // of the result: batch, heads, places, size
  int64_t size_ = 0;
  ir::ValueId x_ = ir::no_value;
  Half cosines_, sines_;
};

}  // namespace

bool recognise_rotary(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return RotaryMatcher(graph, id).run(); });
}

}  // namespace tenon::passes
