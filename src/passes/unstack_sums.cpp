// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t most_parts = 4;

/// What lies along an axis as parts of one element each: tensors that were stacked, or an axis that a Reshape split.
struct Stack {
  std::vector<ir::ValueId> tensors;
  ir::ValueId whole = ir::no_value;  // where no tensors are: along axis `of` are `count` parts, one behind the other
  size_t of = 0;
  int64_t count = 0, length = 0;
};

std::vector<ir::ValueId> stacked(const ir::Graph& graph, ir::ValueId value, size_t axis) {
  const ir::Node* node = made_by(graph, value, "Concat");
  const auto rank = rank_of(graph, value);
  if (!node || !rank || axis_of(node->integer("axis", 0), *rank) != axis) return {};
  if (node->inputs.size() < 2 || node->inputs.size() > most_parts) return {};
  for (const ir::ValueId input : node->inputs) {
    const ir::Shape* shape = shape_of(graph, input);
    if (!shape || shape->size() != *rank || !((*shape)[axis] == ir::Dim(1))) return {};
  }
  return node->inputs;
}

/// Nothing where a value is no such stack, or one of very many parts.
std::optional<Stack> stack_of(const ir::Graph& graph, ir::ValueId value, size_t axis) {
  if (const auto tensors = stacked(graph, value, axis); !tensors.empty())
    return Stack{.tensors = tensors, .count = std::ssize(tensors)};
  const ir::Node* node = made_by(graph, value, "Reshape");
  const ir::Shape* from = node ? shape_of(graph, node->inputs[0]) : nullptr;
  const ir::Shape* to = node ? shape_of(graph, value) : nullptr;
  if (!from || !to || !(*to)[axis].is_constant()) return std::nullopt;
  const int64_t count = (*to)[axis].value();
  if (count < 2 || count > static_cast<int64_t>(most_parts)) return std::nullopt;
  const std::vector<size_t> counts = split_counts(*from, *to);
  size_t begin = 0;
  for (size_t of = 0; of < counts.size(); begin += counts[of++]) {
    if (begin != axis || counts[of] < 2 || !(*from)[of].is_constant()) continue;
    return Stack{.whole = node->inputs[0], .of = of, .count = count, .length = (*from)[of].value() / count};
  }
  return std::nullopt;
}

/// A sum over one axis, and what makes a sum of tensors of it.
struct Sum {
  ir::Graph& graph;
  ir::Node node;
  size_t axis, rank;
  ir::Shape result;
  std::string name;
  std::vector<std::string> origins;

  static std::optional<Sum> of(ir::Graph& graph, const ir::Node& node) {
    if (node.op != "ReduceSum" || node.inputs.size() < 2) return std::nullopt;
    const auto axes = integers(graph, node.inputs[1]);
    const auto rank = rank_of(graph, node.inputs[0]);
    const ir::Shape* to = shape_of(graph, node.outputs[0]);
    const auto axis = axes && axes->size() == 1 && rank ? axis_of(axes->front(), *rank) : std::nullopt;
    if (!axis || !to) return std::nullopt;
    return Sum{graph, node, *axis, *rank, *to, graph.value(node.outputs[0]).name, node.origins};
  }

  ir::ValueId typed(const char* op, const std::vector<ir::ValueId>& inputs, const ir::Shape& shape,
                    const std::string& suffix) const {
    const DType type = graph.value(inputs[0]).dtype;
    const ir::ValueId made = graph.apply(op, inputs, {}, origins, name + suffix);
    graph.value(made).dtype = type, graph.value(made).shape = shape;
    return made;
  }
  ir::ValueId slice(ir::ValueId from, size_t along, int64_t begin, int64_t end, const std::string& suffix) const {
    const auto number = [&](const char* what, int64_t value) { return constant(graph, name + suffix + what, {value}); };
    ir::Shape shape = *shape_of(graph, from);
    shape[along] = ir::Dim(end - begin);
    return typed("Slice",
                 {from, number(".first", begin), number(".last", end), number(".axis", static_cast<int64_t>(along))},
                 shape, suffix);
  }
  ir::ValueId reshaped(ir::ValueId value, const ir::Shape& to, const std::string& suffix) const {
    const ir::Shape from = *shape_of(graph, value);
    if (from == to) return value;
    const auto target = reshape_target(from, to).value();
    return typed("Reshape", {value, constant(graph, name + suffix + ".sizes", target)}, to, suffix);
  }
  /// `shape` of the rank of what is summed, without the axis where the sum has none.
  ir::Shape placed(ir::Shape shape) const {
    if (result.size() != rank) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return shape;
  }
  /// Part `at` of what a stack is of, in its place in the sum.
  ir::ValueId part(const Stack& stack, ir::ValueId value, int64_t at, const std::string& suffix) const {
    ir::Shape shape = *shape_of(graph, value);
    shape[axis] = ir::Dim(1);
    if (!stack.tensors.empty()) return reshaped(stack.tensors[static_cast<size_t>(at)], placed(shape), suffix);
    const ir::ValueId cut = slice(stack.whole, stack.of, at * stack.length, (at + 1) * stack.length, suffix + ".part");
    return reshaped(cut, placed(shape), suffix);
  }
  /// Whether a part of a stack that stands in for `value` can be given its place.
  bool fits(const Stack& stack, ir::ValueId value) const {
    ir::Shape shape = *shape_of(graph, value), cut = shape;
    shape[axis] = ir::Dim(1);
    if (stack.tensors.empty()) cut = *shape_of(graph, stack.whole), cut[stack.of] = ir::Dim(stack.length);
    else cut = *shape_of(graph, stack.tensors[0]);
    return cut == placed(shape) || reshape_target(cut, placed(shape));
  }
  bool fits(ir::ValueId factors) const {
    ir::Shape shape = *shape_of(graph, factors);
    if (const auto stack = shape[axis] == ir::Dim(1) ? std::nullopt : stack_of(graph, factors, axis))
      return fits(*stack, factors);
    shape[axis] = ir::Dim(1);
    return shape == placed(shape) || reshape_target(shape, placed(shape));
  }
  /// What part `at` is multiplied by: that of a stack or of an axis, or all where these have one element along it.
  ir::ValueId factor(ir::ValueId factors, int64_t at, const std::string& suffix) const {
    const ir::Shape shape = *shape_of(graph, factors);
    if (shape[axis] == ir::Dim(1)) return reshaped(factors, placed(shape), suffix);
    if (const auto stack = stack_of(graph, factors, axis)) return part(*stack, factors, at, suffix);
    const ir::ValueId cut = slice(factors, axis, at, at + 1, suffix);
    return reshaped(cut, placed(*shape_of(graph, cut)), suffix);
  }
};

/// A sum over the axis along which tensors were stacked, or of few parts that an axis was split into, maybe times
/// others, is a sum of tensors.
bool unstack(ir::Graph& graph, ir::NodeId id) {
  auto sum = Sum::of(graph, graph.node(id));
  if (!sum) return false;
  const ir::Node* product = sole(graph, sum->node.inputs[0], "Mul");
  ir::ValueId value = sum->node.inputs[0], factors = ir::no_value;
  std::optional<Stack> stack = stack_of(graph, value, sum->axis);
  for (size_t side = 0; product && !stack && side < 2; ++side) {
    value = product->inputs[side], factors = product->inputs[1 - side];
    const auto rank = rank_of(graph, value);
    if (rank == sum->rank) stack = stack_of(graph, value, sum->axis);
  }
  if (!stack) return false;
  if (product) sum->origins = joined(product->origins, sum->origins);
  const ir::Shape* of_factors = factors == ir::no_value ? nullptr : shape_of(graph, factors);
  if (factors != ir::no_value) {
    if (!of_factors || of_factors->size() != sum->rank) return false;
    const ir::Dim& along = (*of_factors)[sum->axis];
    if (!(along == ir::Dim(1)) && !(along == ir::Dim(stack->count))) return false;
    if (!sum->fits(factors)) return false;
  }
  if (!sum->fits(*stack, value)) return false;
  ir::ValueId all = ir::no_value;
  for (int64_t at = 0; at < stack->count; ++at) {
    const std::string suffix = "." + std::to_string(at);
    ir::ValueId part = sum->part(*stack, value, at, suffix);
    if (factors != ir::no_value)
      part = sum->typed("Mul", {part, sum->factor(factors, at, suffix + ".factor")}, sum->result, "");
    all = all == ir::no_value ? part : sum->typed("Add", {all, part}, sum->result, "");
  }
  replace(graph, id, all);
  return true;
}

/// The average over height and width of a sum of parts of the channels is the sum of the parts of the channels'
/// average.
bool average_first(ir::Graph& graph, ir::NodeId id) {
  const ir::Node mean = graph.node(id);
  const ir::Node* summed = mean.op == "GlobalAveragePool" ? sole(graph, mean.inputs[0], "ReduceSum") : nullptr;
  auto sum = summed ? Sum::of(graph, *summed) : std::nullopt;
  const auto stack = sum ? stack_of(graph, sum->node.inputs[0], sum->axis) : std::nullopt;
  if (!stack || !stack->tensors.empty() || stack->of != 1 || sum->axis != 1 || sum->result.size() != 4) return false;
  const ir::Shape* whole = shape_of(graph, stack->whole);
  if (whole->size() != 4 || sum->rank != 5 ||
      !(*whole == ir::Shape{sum->result[0], (*whole)[1], sum->result[2], sum->result[3]}))
    return false;
  sum->origins = joined(sum->origins, mean.origins), sum->name = graph.value(mean.outputs[0]).name;
  const ir::Shape means{(*whole)[0], (*whole)[1], ir::Dim(1), ir::Dim(1)};
  const ir::ValueId averaged = sum->typed("GlobalAveragePool", {stack->whole}, means, ".parts");
  ir::ValueId all = ir::no_value;
  for (int64_t at = 0; at < stack->count; ++at) {
    const ir::ValueId part =
        sum->slice(averaged, 1, at * stack->length, (at + 1) * stack->length, "." + std::to_string(at));
    all = all == ir::no_value ? part : sum->typed("Add", {all, part}, *shape_of(graph, part), "");
  }
  replace(graph, id, all);
  return true;
}

}  // namespace

bool unstack_sums(ir::Graph& graph) {
  const bool averaged = each_node(graph, [&](ir::NodeId id) { return average_first(graph, id); });
  return each_node(graph, [&](ir::NodeId id) { return unstack(graph, id); }) || averaged;
}

}  // namespace tenon::passes
