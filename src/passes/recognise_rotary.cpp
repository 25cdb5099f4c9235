// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

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
/// were transposed behind a product, the node comes before that, where its rows lie dense.
class RotaryMatcher {
 public:
  RotaryMatcher(ir::Graph& graph, ir::NodeId id)
      : graph_(graph), id_(id), node_(graph.node(id)), origins_(node_.origins) {}

  bool run() {
    if (node_.op != "Add") return false;
    const ir::Shape* shape = shape_of(graph_, node_.outputs[0]);
    if (!shape || shape->size() != 4 || !ir::is_constant(*shape) || graph_.value(node_.outputs[0]).dtype != DType::f32)
      return false;
    batch_ = (*shape)[0].value(), heads_ = (*shape)[1].value(), places_ = (*shape)[2].value(),
    size_ = (*shape)[3].value();
    if (size_ < 2 || size_ % 2) return false;
    for (size_t side = 0; side < 2; ++side)
      if (match(node_.inputs[side], node_.inputs[1 - side])) return build();
    return false;
  }

 private:
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
        cosines_ = half_of(graph_.constant(by_cosine->inputs[1 - a]), places_, size_);
        sines_ = half_of(graph_.constant(by_sine->inputs[1 - b]), places_, size_);
        if (!cosines_ || !sines_) continue;
        for (const ir::Node* node : {by_cosine, by_sine, join, minus}) note(*node);
        note(*graph_.producer(join->inputs[1])), note(*graph_.producer(minus->inputs[0]));
        return true;
      }
    return false;
  }

  bool build() {
    const std::string name = graph_.value(node_.outputs[0]).name;
    Tensor positions(DType::i64, {batch_, places_});
    for (int64_t at = 0; at < positions.elements(); ++at) positions.data<int64_t>()[at] = at % places_;
    std::vector<ir::ValueId> inputs{x_, graph_.add_constant(name + ".cosines", cosines_),
                                    graph_.add_constant(name + ".sines", sines_),
                                    graph_.add_constant(name + ".positions", positions)};
    const ir::Node* turn = made_by(graph_, x_, "Transpose");
    const bool swaps = turn && turn->integers("perm") == Perm{0, 2, 1, 3};
    const ir::Node* open = swaps ? made_by(graph_, turn->inputs[0], "Reshape") : nullptr;
    const ir::Shape* rows = open ? shape_of(graph_, open->inputs[0]) : nullptr;
    const bool before = rows && *rows == ir::Shape{ir::Dim(batch_), ir::Dim(places_), ir::Dim(heads_ * size_)};
    if (!before) {
      replace(graph_, id_, graph_.apply("RotaryEmbedding", inputs, {}, origins_, name));
      return true;
    }
    inputs[0] = open->inputs[0];
    const auto moved = joined(open->origins, turn->origins);
    const ir::ValueId turned =
        graph_.apply("RotaryEmbedding", inputs, {{"num_heads", heads_}}, origins_, name + ".rows");
    const std::vector<int64_t> sizes{batch_, places_, heads_, size_};
    const ir::ValueId opened =
        graph_.apply("Reshape", {turned, constant(graph_, name + ".sizes", sizes)}, {}, moved, name + ".heads");
    replace(graph_, id_, graph_.apply("Transpose", {opened}, {{"perm", Perm{0, 2, 1, 3}}}, moved, name));
    return true;
  }

  ir::Graph& graph_;
  const ir::NodeId id_;
  const ir::Node node_;
  std::vector<std::string> origins_;
  int64_t batch_ = 0, heads_ = 0, places_ = 0, size_ = 0;
  ir::ValueId x_ = ir::no_value;
  Tensor cosines_, sines_;
};

}  // namespace

bool recognise_rotary(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return RotaryMatcher(graph, id).run(); });
}

}  // namespace tenon::passes
