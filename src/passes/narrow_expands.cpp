// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::narrow {
namespace {

bool is_arithmetic(const ir::Node& node) {
  return node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div";
}

/// Whether all users are sums or products of two operands, whose other one has each of the value's axes in full.
bool stretches_itself(const ir::Graph& graph, ir::ValueId value, const std::vector<int64_t>& full) {
  if (graph.is_output(value) || graph.value(value).users.empty()) return false;
  return std::all_of(graph.value(value).users.begin(), graph.value(value).users.end(), [&](ir::NodeId id) {
    const ir::Node& user = graph.node(id);
    if (!is_arithmetic(user)) return false;
    const ir::ValueId other = user.inputs[user.inputs[0] == value ? 1 : 0];
    return other != value && sizes_of(graph, other) == full;
  });
}

/// Sizes before and behind a Reshape with those axes of a single element that have one in `from` and stay by
/// themselves.
void narrow(const std::vector<int64_t>& from, std::vector<int64_t>& before, std::vector<int64_t>& behind) {
  const std::vector<int64_t> wide = before;
  size_t a = 0, b = 0;
  while (a < wide.size() && b < behind.size()) {
    const size_t first_a = a, first_b = b;
    int64_t left = wide[a++], right = behind[b++];
    while (left != right) {
      if (left < right && a < wide.size()) left *= wide[a++];
      else if (right < left && b < behind.size()) right *= behind[b++];
      else return;
    }
    const bool single =
        std::all_of(from.begin() + static_cast<std::ptrdiff_t>(first_a), from.begin() + static_cast<std::ptrdiff_t>(a),
                    [](int64_t size) { return size == 1; });
    if (!single) continue;
    std::fill(before.begin() + static_cast<std::ptrdiff_t>(first_a), before.begin() + static_cast<std::ptrdiff_t>(a),
              1);
    std::fill(behind.begin() + static_cast<std::ptrdiff_t>(first_b), behind.begin() + static_cast<std::ptrdiff_t>(b),
              1);
  }
}

void set_sizes(ir::Graph& graph, ir::ValueId value, DType type, const std::vector<int64_t>& sizes) {
  graph.value(value).dtype = type;
  graph.value(value).shape = ir::Shape(sizes.begin(), sizes.end());
}

/// Axes that an Expand repeats, and that what follows its Reshape would stretch anyway, stay of one element.
bool narrow_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Expand") return false;
  const auto given = sizes_of(graph, node.inputs[0]);
  auto wide = sizes_of(graph, node.outputs[0]);
  const ir::NodeId next = graph.only_user(node.outputs[0]);
  if (!given || !wide || next == ir::no_node || graph.node(next).op != "Reshape" ||
      graph.node(next).inputs[0] != node.outputs[0])
    return false;
  const ir::Node reshape = graph.node(next);
  auto result = sizes_of(graph, reshape.outputs[0]);
  if (!result || !stretches_itself(graph, reshape.outputs[0], *result)) return false;
  std::vector<int64_t> from(wide->size() - given->size(), 1);
  from.insert(from.end(), given->begin(), given->end());
  const std::vector<int64_t> before = *wide;
  narrow(from, *wide, *result);
  if (*wide == before) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::ValueId value =
      graph.apply("Expand", {node.inputs[0], constant(graph, name + ".sizes", *wide)}, {}, node.origins, name);
  value = graph.apply("Reshape", {value, constant(graph, name + ".shape", *result)}, {}, reshape.origins, name);
  set_sizes(graph, value, graph.value(reshape.outputs[0]).dtype, *result);
  replace(graph, next, value);
  return true;
}

/// Axes are moved before they are stretched: fewer elements.
bool turn_first(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Transpose") return false;
  const ir::NodeId producer = graph.value(node.inputs[0]).producer;
  if (producer == ir::no_node || graph.only_user(node.inputs[0]) != id) return false;
  const ir::Node expand = graph.node(producer);
  if (expand.op != "Expand") return false;
  const auto from = sizes_of(graph, expand.inputs[0]), wide = sizes_of(graph, node.outputs[0]);
  const std::vector<int64_t> perm = node.integers("perm");
  if (!from || !wide || from->size() != wide->size() || perm.size() != from->size()) return false;
  std::vector<int64_t> turned;
  for (const int64_t axis : perm) turned.push_back((*from)[static_cast<size_t>(axis)]);
  const DType type = graph.value(node.outputs[0]).dtype;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::ValueId value = graph.apply("Transpose", {expand.inputs[0]}, node.attributes, node.origins, name);
  set_sizes(graph, value, type, turned);
  value = graph.apply("Expand", {value, constant(graph, name + ".sizes", *wide)}, {}, expand.origins, name);
  set_sizes(graph, value, type, *wide);
  replace(graph, id, value);
  return true;
}

/// The sizes of two operands that stretch each other; none where they do not fit.
std::optional<std::vector<int64_t>> together(std::vector<int64_t> a, std::vector<int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis] != b[axis] && a[axis] != 1 && b[axis] != 1) return std::nullopt;
    if (a[axis] == 1) a[axis] = b[axis];
  }
  return a;
}

/// Arithmetic of two operands stretches them itself.
bool drop_at(ir::Graph& graph, ir::NodeId id) {
  if (!is_arithmetic(graph.node(id))) return false;
  const auto wide = sizes_of(graph, graph.node(id).outputs[0]);
  bool changed = false;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const ir::NodeId producer = graph.value(graph.node(id).inputs[at]).producer;
    if (producer == ir::no_node || graph.node(producer).op != "Expand") continue;
    const ir::ValueId source = graph.node(producer).inputs[0];
    const auto own = sizes_of(graph, source), other = sizes_of(graph, graph.node(id).inputs[1 - at]);
    if (!wide || !own || !other || together(*own, *other) != wide) continue;
    graph.set_input(id, at, source);
    changed = true;
  }
  return changed;
}

}  // namespace
}  // namespace tenon::passes::narrow

namespace tenon::passes {

bool narrow_expands(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    return narrow::narrow_at(graph, id) || narrow::turn_first(graph, id) || narrow::drop_at(graph, id);
  });
}

}  // namespace tenon::passes
