// SPDX-License-Identifier: Apache-2.0
#include "passes/repeated_heads.h"

namespace tenon::passes {

Untransposed untransposed_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* turn = made_by(graph, value, "Transpose");
  return turn && turn->has("perm") ? Untransposed{turn->inputs[0], turn->integers("perm")}
                                   : Untransposed{value, {0, 1, 2, 3, 4}};
}

ir::Shape without(const ir::Graph& graph, ir::ValueId value, int64_t axis) {
  ir::Shape shape = *shape_of(graph, value);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

std::optional<std::vector<int64_t>> target_without(const ir::Graph& graph, ir::ValueId value, int64_t axis) {
  const ir::Shape* shape = shape_of(graph, value);
  return shape && shape->size() == 5 ? reshape_target(*shape, without(graph, value, axis)) : std::nullopt;
}

Repeated repeated(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* join = made_by(graph, value, "Reshape");
  const ir::Node* expand = join ? made_by(graph, join->inputs[0], "Expand") : nullptr;
  const ir::Shape* four = shape_of(graph, value);
  const ir::Shape* five = expand ? shape_of(graph, expand->outputs[0]) : nullptr;
  const ir::Shape* one = expand ? shape_of(graph, expand->inputs[0]) : nullptr;
  if (!four || !five || !one || four->size() != 4 || five->size() != 5 || one->size() != 5) return {};
  for (const size_t axis : {size_t{1}, size_t{2}, size_t{4}})
    if (!(*five)[axis].is_constant() || !(*one)[axis].is_constant()) return {};
  if ((*one)[2].value() != 1 || !((*four)[2] == (*five)[3]) || !((*four)[3] == (*five)[4])) return {};
  for (const size_t axis : {size_t{0}, size_t{1}, size_t{3}, size_t{4}})
    if (!((*one)[axis] == (*five)[axis])) return {};
  const Untransposed from_five = untransposed_of(graph, expand->inputs[0]);
  if (!target_without(graph, from_five.value, from_five.perm[2])) return {};
  return {(*five)[2].value(), expand->inputs[0], joined(expand->origins, join->origins)};
}

}  // namespace tenon::passes
