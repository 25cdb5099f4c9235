// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::narrow {
namespace {

/// Whether all users are sums or products of two operands, whose other one has each of the value's axes in full.
bool stretches_itself(const ir::Graph& graph, ir::ValueId value, const std::vector<int64_t>& full) {
  if (graph.is_output(value) || graph.value(value).users.empty()) return false;
  return std::all_of(graph.value(value).users.begin(), graph.value(value).users.end(), [&](ir::NodeId id) {
    const ir::Node& user = graph.node(id);
    if (user.op != "Add" && user.op != "Sub" && user.op != "Mul" && user.op != "Div") return false;
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
  graph.value(value).dtype = graph.value(reshape.outputs[0]).dtype;
  graph.value(value).shape = ir::Shape(result->begin(), result->end());
  replace(graph, next, value);
  return true;
}

}  // namespace
}  // namespace tenon::passes::narrow

namespace tenon::passes {

bool narrow_expands(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return narrow::narrow_at(graph, id); });
}

}  // namespace tenon::passes
