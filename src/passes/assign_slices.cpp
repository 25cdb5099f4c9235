// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "passes/passes.h"
#include "passes/ramps.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t most_partial = 3;  // axes that are assigned in part: each takes a Concat
constexpr int least_share = 32;     // of the data that are assigned, where they are a few columns
constexpr int most_sums = 16;       // from updates to the slice that they are added to

/// Places from `start` on along each axis.
struct Box {
  ir::Shape start, size;
};

Box whole(const ir::Shape& shape) { return {ir::Shape(shape.size(), ir::Dim(0)), shape}; }

/// Puts `size` places from `start` on along an axis of data into a box, where they are all in the data.
bool put(Box& box, size_t axis, ir::Dim start, const ir::Dim& size) {
  const ir::Dim all = box.size[axis];
  if (start.is_constant() && start.value() < 0) start = start + all;
  if (!start.is_constant() || start.value() < 0) return false;
  const ir::Dim left = all - start - size;
  if (!left.is_constant() || left.value() < 0 || (size.is_constant() && size.value() < 1)) return false;
  box.start[axis] = start, box.size[axis] = size;
  // What lies before or behind is cut out right however small a symbol is, but not both.
  return size.is_constant() || start == ir::Dim(0) || left == ir::Dim(0);
}

/// The places that tuples of indices name, one after the other; nullopt where they are no such box, or one that may
/// reach out of the data.
std::optional<Box> box_of_tuples(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape *data = shape_of(graph, node.inputs[0]), *indices = shape_of(graph, node.inputs[1]);
  if (!data || !indices) return std::nullopt;
  const std::vector<Ramp> ramps = ramps_of_tuples(graph, node.inputs[1]);
  if (ramps.empty() || ramps.size() > data->size()) return std::nullopt;
  Box box = whole(*data);
  size_t next = 0;  // of the axes of the tuples: each runs along one of the data, in their order
  const auto skip_ones = [&] {
    while (next + 1 < indices->size() && (*indices)[next] == ir::Dim(1)) ++next;
  };
  for (size_t axis = 0; axis < ramps.size(); ++axis) {
    const std::vector<int64_t>& steps = ramps[axis].steps;
    skip_ones();
    const bool runs = next < steps.size() && steps[next] == 1;
    std::vector<int64_t> alone(steps.size(), 0);
    if (runs) alone[next] = 1;
    if (steps != alone) return std::nullopt;
    const ir::Dim size = runs ? (*indices)[next++] : ir::Dim(1);
    if (!put(box, axis, ramps[axis].start, size)) return std::nullopt;
  }
  skip_ones();
  return next + 1 == indices->size() ? std::optional(box) : std::nullopt;
}

/// The same of indices along one axis, which are the same at all places of the others.
std::optional<Box> box_along_axis(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape *data = shape_of(graph, node.inputs[0]), *indices = shape_of(graph, node.inputs[1]);
  const auto axis = data ? axis_of(node.integer("axis", 0), data->size()) : std::nullopt;
  const auto ramp = indices && axis ? ramp_of(graph, node.inputs[1]) : std::nullopt;
  if (!ramp || indices->size() != data->size()) return std::nullopt;
  Box box = whole(*data);
  for (size_t at = 0; at < data->size(); ++at) {
    const bool runs = at == *axis && !((*indices)[at] == ir::Dim(1));
    if (ramp->steps[at] != (runs ? 1 : 0)) return std::nullopt;
    if (!put(box, at, at == *axis ? ramp->start : ir::Dim(0), (*indices)[at])) return std::nullopt;
  }
  return box;
}

bool is_assignment(const ir::Node& node) {
  return (node.op == "ScatterND" || node.op == "ScatterElements") && node.text("reduction", "none") == "none";
}
std::optional<Box> box_of(const ir::Graph& graph, const ir::Node& node) {
  if (!is_assignment(node)) return std::nullopt;
  return node.op == "ScatterND" ? box_of_tuples(graph, node) : box_along_axis(graph, node);
}

/// The shape that updates have.
ir::Shape shape_of_updates(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& data = *shape_of(graph, node.inputs[0]);
  ir::Shape shape = *shape_of(graph, node.inputs[1]);
  if (node.op == "ScatterElements") return shape;
  const auto length = static_cast<std::ptrdiff_t>(shape.back().value());
  shape.pop_back();
  shape.insert(shape.end(), data.begin() + length, data.end());
  return shape;
}

/// The part of `data` that a value is, as slices cut it out; nullopt for another value.
std::optional<Box> part_of(const ir::Graph& graph, ir::ValueId value, ir::ValueId data, int left = 8) {
  const ir::Shape* shape = shape_of(graph, value);
  if (!shape || left == 0) return std::nullopt;
  if (value == data) return whole(*shape);
  const ir::Node* node = made_by(graph, value, "Slice");
  const ir::Shape* from = node ? shape_of(graph, node->inputs[0]) : nullptr;
  if (!from) return std::nullopt;
  auto box = part_of(graph, node->inputs[0], data, left - 1);
  const auto starts = integers(graph, node->inputs[1]);
  const auto axes = node->inputs.size() > 3 ? integers(graph, node->inputs[3]) : std::nullopt;
  const auto steps = node->inputs.size() > 4 ? integers(graph, node->inputs[4]) : std::nullopt;
  if (!box || !starts || !axes || (node->inputs.size() > 4 && !steps)) return std::nullopt;
  for (size_t at = 0; at < starts->size(); ++at) {
    const auto axis = axis_of((*axes)[at], from->size());
    if (!axis || (steps && (*steps)[at] != 1)) return std::nullopt;
    if ((*shape)[*axis] == (*from)[*axis]) continue;
    if (!(*from)[*axis].is_constant()) return std::nullopt;
    const int64_t size = (*from)[*axis].value(), start = (*starts)[at];
    const int64_t first = start < 0 ? std::max(start, -size) + size : std::min(start, size);
    box->start[*axis] = box->start[*axis] + first;
  }
  box->size = *shape;
  return box;
}

/// Whether one node uses a value beside those that ask for its sizes.
bool is_used_once(const ir::Graph& graph, ir::ValueId value) {
  const std::vector<ir::NodeId>& users = graph.value(value).users;
  const auto reads = [&](ir::NodeId user) { return graph.node(user).op != "Shape"; };
  return !graph.is_output(value) && std::count_if(users.begin(), users.end(), reads) == 1;
}

/// Updates take the place of a box of the data.
class Assignment {
 public:
  Assignment(ir::Graph& graph, const ir::Node& node, ir::ValueId data, Box box)
      : graph_(graph),
        node_(node),
        name_(graph.value(node_.outputs[0]).name),
        origins_(node_.origins),
        type_(graph.value(data).dtype),
        data_(data),
        shape_(*shape_of(graph, data)),
        box_(std::move(box)) {
    for (size_t axis = 0; axis < shape_.size(); ++axis)
      if (!(box_.size[axis] == shape_[axis])) partial_.push_back(axis);
  }
  bool is_simple() const { return type_ != DType::string && partial_.size() <= most_partial; }

  /// The data with the updates in it.
  std::optional<ir::ValueId> result(ir::ValueId updates) {
    if (is_assigned_part(updates)) return data_;
    if (!partial_.empty())
      if (const auto sum = as_sum(updates)) return sum;
    const auto parts = reshaped(updates, box_.size);
    return parts ? std::optional(joined_with(data_, *parts, 0)) : std::nullopt;
  }
  /// The same on the axes of `from`, where data are that transposed.
  std::optional<ir::ValueId> result(ir::ValueId updates, ir::ValueId from, const Perm& perm) {
    const auto parts = reshaped(updates, box_.size);
    if (!parts) return std::nullopt;
    const Perm back = inverse(perm);
    Perm left = back;
    ir::ValueId turned = *parts;
    for (const ir::Node* turn = made_by(graph_, turned, "Transpose"); turn && turn->has("perm");
         turn = made_by(graph_, turned, "Transpose"))
      left = compose(turn->integers("perm"), left), turned = turn->inputs[0];
    if (!is_identity(left)) turned = typed("Transpose", {turned}, {{"perm", left}}, permuted(box_.size, back));
    return Assignment(graph_, node_, from, {permuted(box_.start, back), permuted(box_.size, back)}).result(turned);
  }

 private:
  ir::ValueId typed(const char* op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes,
                    const ir::Shape& shape) {
    const ir::ValueId made = graph_.apply(op, inputs, attributes, origins_, name_);
    graph_.value(made).dtype = type_, graph_.value(made).shape = shape;
    return made;
  }
  std::optional<ir::ValueId> reshaped(ir::ValueId value, const ir::Shape& to) {
    const ir::Shape from = *shape_of(graph_, value);
    if (from == to) return value;
    const auto target = reshape_target(from, to);
    if (!target) return std::nullopt;
    return typed("Reshape", {value, constant(graph_, name_ + ".sizes", *target)}, {}, to);
  }
  ir::ValueId slice(ir::ValueId value, size_t axis, int64_t begin, int64_t end, const ir::Dim& size) {
    ir::Shape shape = *shape_of(graph_, value);
    shape[axis] = size;
    return typed("Slice",
                 {value, constant(graph_, name_ + ".begin", {begin}), constant(graph_, name_ + ".end", {end}),
                  constant(graph_, name_ + ".axis", {static_cast<int64_t>(axis)})},
                 {}, shape);
  }
  int64_t begin_of(size_t axis) const { return box_.start[axis].value(); }
  int64_t behind(size_t axis) const { return (shape_[axis] - box_.start[axis] - box_.size[axis]).value(); }

  /// The updates between what lies before and behind them along the partial axes from the `depth`th on.
  ir::ValueId joined_with(ir::ValueId data, ir::ValueId updates, size_t depth) {
    if (depth == partial_.size()) return updates;
    const size_t axis = partial_[depth];
    const int64_t begin = begin_of(axis), left = behind(axis), to_end = std::numeric_limits<int64_t>::max();
    const ir::Shape shape = *shape_of(graph_, data);
    const bool last = depth + 1 == partial_.size();
    const int64_t end = left == 0 ? to_end : -left;
    const ir::ValueId inner = last ? ir::no_value : slice(data, axis, begin, end, box_.size[axis]);
    std::vector<ir::ValueId> parts;
    if (begin > 0) parts.push_back(slice(data, axis, 0, begin, begin));
    parts.push_back(joined_with(inner, updates, depth + 1));
    if (left > 0) parts.push_back(slice(data, axis, -left, to_end, left));
    return typed("Concat", parts, {{"axis", static_cast<int64_t>(axis)}}, shape);
  }

  /// What is added to the assigned part of the data, through reshapes of the sum; nullopt where updates are no such
  /// sum. Longer sums would be added in another order.
  std::optional<ir::ValueId> addend(ir::ValueId value, int left) {
    const ir::Node* found = graph_.producer(value);
    if (!found || left == 0 || !is_used_once(graph_, value)) return std::nullopt;
    const ir::Node node = *found;
    const ir::Shape* shape = shape_of(graph_, value);
    if (!shape) return std::nullopt;
    const ir::Shape to = *shape;
    if (node.op == "Reshape" || (node.op == "Expand" && same_shape(graph_, node.inputs[0], value))) {
      const auto inner = addend(node.inputs[0], left - 1);
      origins_ = joined(node.origins, origins_);
      return inner ? reshaped(*inner, to) : std::nullopt;
    }
    if (node.op != "Add") return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const ir::ValueId other = node.inputs[1 - side];
      if (!same_shape(graph_, node.inputs[side], value)) continue;
      origins_ = joined(node.origins, node_.origins);
      if (is_assigned_part(node.inputs[side])) return expanded(other, to);
    }
    return std::nullopt;
  }
  bool is_assigned_part(ir::ValueId value) {
    while (const ir::Node* view = made_by(graph_, value, "Reshape")) value = view->inputs[0];
    const auto part = part_of(graph_, value, data_);
    return part && part->start == box_.start && part->size == box_.size;
  }
  std::optional<ir::ValueId> expanded(ir::ValueId value, const ir::Shape& to) {
    const ir::Shape* from = shape_of(graph_, value);
    if (!from || *from == to) return from ? std::optional(value) : std::nullopt;
    if (!ir::is_constant(to)) return std::nullopt;
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : to) sizes.push_back(dim.value());
    return typed("Expand", {value, constant(graph_, name_ + ".sizes", sizes)}, {}, to);
  }

  /// Updates that are added to what was there: the data plus zeros around the addend, where these are no more than it.
  std::optional<ir::ValueId> as_sum(ir::ValueId updates) {
    if (type_ != DType::f32) return std::nullopt;
    int64_t inside = 1, all = 1;
    for (const size_t axis : partial_)
      if (shape_[axis].is_constant()) inside *= box_.size[axis].value(), all *= shape_[axis].value();
    if (inside < all / 2) return std::nullopt;
    auto added = addend(updates, most_sums);
    added = added ? reshaped(*added, box_.size) : std::nullopt;
    if (!added) return std::nullopt;
    std::vector<int64_t> before, after, axes;
    for (const size_t axis : partial_) {
      before.push_back(begin_of(axis)), after.push_back(behind(axis));
      axes.push_back(static_cast<int64_t>(axis));
    }
    before.insert(before.end(), after.begin(), after.end());
    // Adding -0 leaves every number as it is; 0 would make 0 of -0.
    const ir::ValueId zero = graph_.add_constant(name_ + ".zero", Tensor::of<float>(DType::f32, {}, {{-0.0F}}));
    const ir::ValueId padded =
        typed("Pad", {*added, constant(graph_, name_ + ".pads", before), zero, constant(graph_, name_ + ".axes", axes)},
              {}, shape_);
    return typed("Add", {data_, padded}, {}, shape_);
  }

  ir::Graph& graph_;
  const ir::Node node_;
  const std::string name_;
  std::vector<std::string> origins_;
  const DType type_;
  const ir::ValueId data_;
  const ir::Shape shape_;
  const Box box_;
  std::vector<size_t> partial_;  // axes of which a part is assigned
};

/// What a node assigns to a box that the next one, which alone needs it, assigns to again need not be assigned.
bool skip_overwritten(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const ir::Node* before = is_assignment(node) ? graph.producer(node.inputs[0]) : nullptr;
  if (!before || !is_assignment(*before) || !is_used_once(graph, node.inputs[0])) return false;
  const auto box = box_of(graph, node), other = box_of(graph, *before);
  if (!box || !other || box->start != other->start || box->size != other->size) return false;
  const ir::NodeId gone = graph.value(node.inputs[0]).producer;
  graph.replace_uses(before->outputs[0], before->inputs[0]);
  graph.remove(gone);
  return true;
}

/// Whether a node writes so little into data that nothing else reads, and that in so short pieces, that all of the data
/// had better stay where they are.
bool is_little_in_place(const ir::Graph& graph, const ir::Node& node, const Box& box) {
  const ir::Shape& data = *shape_of(graph, node.inputs[0]);
  if (!graph.producer(node.inputs[0]) || !is_used_once(graph, node.inputs[0]) || data.empty() ||
      box.size.back() == data.back() || !ir::is_constant(data))
    return false;
  return static_cast<double>(ir::product(box.size).value()) * least_share < ir::product(data).value();
}

bool all_transposed(const ir::Graph& graph, ir::ValueId value) {
  const std::vector<ir::NodeId>& users = graph.value(value).users;
  return !users.empty() && !graph.is_output(value) && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    return graph.node(user).op == "Transpose" && graph.node(user).has("perm");
  });
}

/// Makes those that transpose what a node gives, which is `whole` transposed, transpose that.
void transpose_instead(ir::Graph& graph, ir::NodeId id, ir::ValueId whole, const Perm& perm) {
  const std::vector<ir::NodeId> users = graph.value(graph.node(id).outputs[0]).users;
  for (const ir::NodeId user : users) {
    const Perm all = compose(perm, graph.node(user).integers("perm"));
    if (is_identity(all)) {
      replace(graph, user, whole);
    } else {
      graph.set_input(user, 0, whole);
      graph.node(user).attributes["perm"] = all;
    }
  }
  graph.remove(id);
}

bool assign(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  auto box = box_of(graph, node);
  if (!box || is_little_in_place(graph, node, *box)) return false;
  const ir::Shape* given = shape_of(graph, node.inputs[2]);
  Assignment assignment(graph, node, node.inputs[0], std::move(*box));
  if (!given || *given != shape_of_updates(graph, node) || !assignment.is_simple()) return false;
  const ir::Node* turn = made_by(graph, node.inputs[0], "Transpose");
  if (turn && turn->has("perm") && all_transposed(graph, node.outputs[0])) {
    const Perm perm = turn->integers("perm");
    const auto result = assignment.result(node.inputs[2], turn->inputs[0], perm);
    if (result) transpose_instead(graph, id, *result, perm);
    return result.has_value();
  }
  const auto result = assignment.result(node.inputs[2]);
  if (result) replace(graph, id, *result);
  return result.has_value();
}

}  // namespace

bool assign_slices(ir::Graph& graph) {
  const bool skipped = each_node(graph, [&](ir::NodeId id) { return skip_overwritten(graph, id); });
  if (skipped) graph.tidy();
  return each_node(graph, [&](ir::NodeId id) { return assign(graph, id); }) || skipped;
}

}  // namespace tenon::passes
