// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool expand(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Tile" || graph.constant(node.inputs[0])) return false;
  const auto repeats = integers(graph, node.inputs[1]);
  const ir::Shape *known_from = shape_of(graph, node.inputs[0]), *known_to = shape_of(graph, node.outputs[0]);
  if (!repeats || !known_from || !known_to || repeats->size() != known_from->size()) return false;
  // Copies: values move when others are added.
  const ir::Shape from = *known_from, to = *known_to;
  // An axis that comes several times is the second of two, of which the first repeats it.
  ir::Shape apart, wide;
  std::vector<int64_t> sizes;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const int64_t times = (*repeats)[axis];
    const bool is_one = from[axis].is_constant() && from[axis].value() == 1;
    if (times < 1) return false;
    if (times > 1) apart.emplace_back(1), wide.emplace_back(times), sizes.push_back(times);
    if (times == 1 || !is_one) apart.push_back(from[axis]), wide.push_back(from[axis]), sizes.push_back(1);
  }
  const auto before = reshape_target(from, apart), behind = reshape_target(wide, to);
  if (!before || !behind) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::ValueId value = node.inputs[0];
  const auto apply = [&](const char* op, const std::vector<int64_t>& list, const char* suffix, const ir::Shape& shape) {
    const DType type = graph.value(value).dtype;
    value = graph.apply(op, {value, constant(graph, name + suffix, list)}, {}, node.origins, name);
    graph.value(value).dtype = type, graph.value(value).shape = shape;
  };
  if (apart != from) apply("Reshape", *before, ".apart", apart);
  apply("Expand", sizes, ".times", wide);
  if (wide != to) apply("Reshape", *behind, ".shape", to);
  replace(graph, id, value);
  return true;
}

}  // namespace

bool expand_tiles(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return expand(graph, id); });
}

}  // namespace tenon::passes
