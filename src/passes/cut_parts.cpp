// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Places [begin, end) along one axis, of all of which the sizes are known.
struct Cut {
  size_t axis;
  int64_t begin, end;
};

/// What a Slice takes where that is a part along one axis, element by element; nullopt for others.
std::optional<Cut> cut_of(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  const auto starts = integers(graph, node.inputs[1]);
  if (!from || !to || !starts || starts->size() != 1 || node.inputs.size() < 4) return std::nullopt;
  const auto axes = integers(graph, node.inputs[3]);
  const auto axis = axes && axes->size() == 1 ? axis_of(axes->front(), from->size()) : std::nullopt;
  if (!axis || !(*from)[*axis].is_constant() || !(*to)[*axis].is_constant()) return std::nullopt;
  if (node.inputs.size() > 4 && node.inputs[4] != ir::no_value && scalar(graph, node.inputs[4]) != 1.0)
    return std::nullopt;
  const int64_t size = (*from)[*axis].value(), length = (*to)[*axis].value(), start = starts->front();
  const int64_t begin = start < 0 ? std::max(start, -size) + size : start;
  if (length < 1 || begin > size - length) return std::nullopt;
  return Cut{*axis, begin, begin + length};
}

ir::ValueId typed(ir::Graph& graph, const char* op, const std::vector<ir::ValueId>& inputs,
                  const ir::Attributes& attributes, const ir::Node& node, int64_t length, size_t axis) {
  const ir::Value old = graph.value(node.outputs[0]);
  const ir::ValueId made = graph.apply(op, inputs, attributes, node.origins, old.name);
  graph.value(made).dtype = old.dtype, graph.value(made).shape = old.shape;
  (*graph.value(made).shape)[axis] = ir::Dim(length);
  return made;
}

ir::ValueId slice(ir::Graph& graph, ir::ValueId from, const Cut& cut, const ir::Node& node) {
  const std::string name = graph.value(node.outputs[0]).name;
  return typed(graph, "Slice",
               {from, constant(graph, name + ".begin", {cut.begin}), constant(graph, name + ".end", {cut.end}),
                constant(graph, name + ".axis", {static_cast<int64_t>(cut.axis)})},
               {}, node, cut.end - cut.begin, cut.axis);
}

/// A slice of a slice is one of what the first cuts.
bool cut_once(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* before = node.op == "Slice" ? made_by(graph, node.inputs[0], "Slice") : nullptr;
  if (!before) return false;
  const auto first = cut_of(graph, *before), second = cut_of(graph, node);
  if (!first || !second || first->axis != second->axis) return false;
  ir::Node both = node;
  both.origins = joined(before->origins, node.origins);
  const ir::ValueId from = before->inputs[0];
  replace(graph, id, slice(graph, from, {first->axis, first->begin + second->begin, first->begin + second->end}, both));
  return true;
}

/// Whether nothing needs what a Concat gives as a whole.
bool is_only_cut(const ir::Graph& graph, ir::ValueId value, size_t axis) {
  const std::vector<ir::NodeId>& users = graph.value(value).users;
  return !graph.is_output(value) && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const auto cut = graph.node(user).op == "Slice" ? cut_of(graph, graph.node(user)) : std::nullopt;
    return cut && cut->axis == axis;
  });
}

/// A slice of a Concat along its axis is one of its parts, or of several.
bool cut_parts_of(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* found = node.op == "Slice" ? made_by(graph, node.inputs[0], "Concat") : nullptr;
  const auto cut = found ? cut_of(graph, node) : std::nullopt;
  if (!cut || axis_of(found->integer("axis", 0), shape_of(graph, node.inputs[0])->size()) != cut->axis) return false;
  struct Part {
    ir::ValueId value;
    Cut cut;
    bool whole;
  };
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const ir::ValueId input : found->inputs) {
    const ir::Shape* shape = shape_of(graph, input);
    if (!shape || !(*shape)[cut->axis].is_constant()) return false;
    const int64_t size = (*shape)[cut->axis].value();
    const int64_t first = std::max(cut->begin - begin, int64_t{0}), last = std::min(cut->end - begin, size);
    if (first < last) parts.push_back({input, {cut->axis, first, last}, last - first == size});
    begin += size;
  }
  if (parts.empty() || (parts.size() > 1 && !is_only_cut(graph, node.inputs[0], cut->axis))) return false;
  std::vector<ir::ValueId> values;
  for (const Part& part : parts) values.push_back(part.whole ? part.value : slice(graph, part.value, part.cut, node));
  const auto axis = static_cast<int64_t>(cut->axis);
  replace(graph, id,
          values.size() == 1
              ? values[0]
              : typed(graph, "Concat", values, {{"axis", axis}}, node, cut->end - cut->begin, cut->axis));
  return true;
}

/// A Concat of one that nothing else needs, along the same axis.
bool join_once(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto rank = rank_of(graph, node.outputs[0]);
  if (node.op != "Concat" || !rank) return false;
  const auto axis = axis_of(node.integer("axis", 0), *rank);
  std::vector<ir::ValueId> inputs;
  std::vector<std::string> origins = node.origins;
  for (const ir::ValueId input : node.inputs) {
    const ir::Node* inner = sole(graph, input, "Concat");
    if (inner && axis_of(inner->integer("axis", 0), *rank) == axis) {
      inputs.insert(inputs.end(), inner->inputs.begin(), inner->inputs.end());
      origins = joined(inner->origins, origins);
    } else {
      inputs.push_back(input);
    }
  }
  if (inputs.size() == node.inputs.size()) return false;
  graph.set_inputs(id, inputs);
  graph.node(id).origins = origins;
  return true;
}

}  // namespace

bool cut_parts(ir::Graph& graph) {
  const bool cut = each_node(graph, [&](ir::NodeId id) {
    // What a slice of a part became may be a slice of a slice.
    bool changed = false;
    const size_t before = graph.nodes.size();
    changed = cut_parts_of(graph, id) || cut_once(graph, id);
    for (size_t made = before; made < graph.nodes.size(); ++made)
      if (graph.nodes[made].alive && cut_once(graph, static_cast<ir::NodeId>(made))) changed = true;
    return changed;
  });
  if (cut) graph.tidy();
  return each_node(graph, [&](ir::NodeId id) { return join_once(graph, id); }) || cut;
}

}  // namespace tenon::passes
