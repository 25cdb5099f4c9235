// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "passes/epilogue.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A Concat whose parts are all made by kernels that take along what follows them, and read by nobody else.
struct Joined {
  ir::NodeId id;
  size_t axis;      // that the parts lie along
  size_t channels;  // the axis that the makers' outputs lie along
  size_t rank;
  std::vector<int64_t> widths;  // of the parts, along `axis`

  int64_t width() const {
    int64_t all = 0;
    for (const int64_t one : widths) all += one;
    return all;
  }
};

/// The axis of a result that its constant weights make; nullopt where kernels take nothing along.
std::optional<size_t> output_axis(const ir::Graph& graph, const ir::Node& node, size_t rank) {
  const Tensor* weights = node.inputs.size() > 1 ? graph.constant(node.inputs[1]) : nullptr;
  if (!weights || weights->dims().rank() < 2 || rank < 2 || !takes_epilogue(graph, node)) return std::nullopt;
  if (node.op == "Conv" || node.op == "ConvTranspose") return 1;
  return node.op == "Gemm" || weights->dims().rank() == 2 ? std::optional(rank - 1) : std::nullopt;
}

std::optional<Joined> joined_at(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto rank = rank_of(graph, node.outputs[0]);
  if (node.op != "Concat" || !rank) return std::nullopt;
  const auto axis = axis_of(node.integer("axis", 0), *rank);
  if (!axis) return std::nullopt;
  Joined joined{id, *axis, 0, *rank, {}};
  for (const ir::ValueId part : node.inputs) {
    const ir::Node* maker = graph.producer(part);
    const ir::Shape* shape = shape_of(graph, part);
    if (!maker || !shape || shape->size() != *rank || graph.only_user(part) != id) return std::nullopt;
    const auto channels = output_axis(graph, *maker, *rank);
    if (!channels || (!joined.widths.empty() && *channels != joined.channels)) return std::nullopt;
    if (!(*shape)[*axis].is_constant()) return std::nullopt;
    joined.channels = *channels;
    joined.widths.push_back((*shape)[*axis].value());
  }
  return joined;
}

/// A step behind the Concat with the one operand beside it, if any, cut as the parts are.
struct Step {
  size_t from = 0;  // the input that is the Concat
  std::vector<ir::ValueId> others;
};

/// Elements [first, first + width) along an axis.
Tensor piece(const Tensor& tensor, size_t axis, int64_t first, int64_t width) {
  Dims dims = tensor.dims();
  dims[axis] = width;
  int64_t outer = 1, inner = 1;
  for (size_t at = 0; at < axis; ++at) outer *= dims[at];
  for (size_t at = axis + 1; at < dims.rank(); ++at) inner *= dims[at];
  Tensor result(tensor.dtype(), dims);
  for (int64_t at = 0; at < outer; ++at)
    std::memcpy(result.data<float>() + at * width * inner,
                tensor.data<float>() + (at * tensor.dims()[axis] + first) * inner,
                static_cast<size_t>(width * inner) * sizeof(float));
  return result;
}

/// Scales and shifts by a number, or by one for each channel, which become part of weights and biases.
std::optional<Step> scale_of(ir::Graph& graph, const ir::Node& next, ir::ValueId result, const Joined& joined) {
  const bool shifts = next.op == "Add" || next.op == "Sub", divides = next.op == "Div";
  if (!shifts && !divides && next.op != "Mul") return std::nullopt;
  Step step{next.inputs[0] == result ? size_t{0} : size_t{1}, {}};
  const ir::ValueId other = next.inputs[1 - step.from];
  const Tensor* numbers = graph.constant(other);
  if (!numbers || numbers->dtype() != DType::f32 || numbers->dims().rank() > joined.rank) return std::nullopt;
  if (divides && step.from != 0) return std::nullopt;
  const size_t missing = joined.rank - numbers->dims().rank();
  for (size_t at = 0; at < numbers->dims().rank(); ++at)
    if (numbers->dims()[at] != 1 && at + missing != joined.channels) return std::nullopt;
  const bool cut = joined.axis == joined.channels && numbers->elements() > 1;
  if (cut && numbers->elements() != joined.width()) return std::nullopt;
  const Tensor all = *numbers;
  const std::string name = graph.value(other).name;
  int64_t first = 0;
  for (const int64_t width : joined.widths) {
    step.others.push_back(cut ? graph.add_constant(name, piece(all, joined.axis - missing, first, width)) : other);
    first += width;
  }
  return step;
}

/// A sum with a value that is there before, of which each kernel reads its slice.
std::optional<Step> sum_of(ir::Graph& graph, const ir::Node& next, ir::ValueId result, const Joined& joined) {
  if (next.op != "Add" || next.inputs[0] == next.inputs[1]) return std::nullopt;
  Step step{next.inputs[0] == result ? size_t{0} : size_t{1}, {}};
  const ir::ValueId other = next.inputs[1 - step.from];
  if (graph.constant(other) || graph.value(other).dtype != DType::f32 || !same_shape(graph, result, other))
    return std::nullopt;
  // What makes the other takes the whole sum along.
  const ir::Node* maker = graph.producer(other);
  if (maker && graph.only_user(other) != ir::no_node && takes_epilogue(graph, *maker)) return std::nullopt;
  const std::string name = graph.value(other).name;
  for (size_t at = 0; at < joined.widths.size(); ++at)
    step.others.push_back(
        graph.add_value(name + ".part", DType::f32, graph.value(graph.node(joined.id).inputs[at]).shape));
  graph.add_node("Split", {other, constant(graph, name + ".widths", joined.widths)}, step.others,
                 {{"axis", static_cast<int64_t>(joined.axis)}}, next.origins);
  return step;
}

/// Puts a step before the Concat, once for each part.
void hoist(ir::Graph& graph, const Joined& joined, ir::NodeId user, const Step& step) {
  const ir::Node next = graph.node(user);
  std::vector<ir::ValueId> parts = graph.node(joined.id).inputs;
  for (size_t at = 0; at < parts.size(); ++at) {
    std::vector<ir::ValueId> inputs = next.inputs;
    inputs[step.from] = parts[at];
    if (!step.others.empty()) inputs[1 - step.from] = step.others[at];
    const ir::Value before = graph.value(parts[at]);
    parts[at] = graph.apply(next.op, inputs, next.attributes, next.origins, before.name);
    graph.value(parts[at]).shape = before.shape;
    graph.value(parts[at]).dtype = before.dtype;
  }
  graph.set_inputs(joined.id, parts);
  graph.replace_uses(next.outputs[0], graph.node(joined.id).outputs[0]);
  graph.remove(user);
}

bool hoist_at(ir::Graph& graph, ir::NodeId id) {
  const auto joined = joined_at(graph, id);
  if (!joined) return false;
  const ir::ValueId result = graph.node(id).outputs[0];
  // Kernels take scales, then an activation and a sum in either order.
  bool changed = false, scales = true, activates = true, sums = true;
  for (;;) {
    const ir::NodeId user = graph.only_user(result);
    if (user == ir::no_node || graph.node(user).outputs.size() != 1) return changed;
    const ir::Node next = graph.node(user);
    if (!same_shape(graph, result, next.outputs[0])) return changed;
    std::optional<Step> step;
    if (scales) step = scale_of(graph, next, result, *joined);
    if (!step) {
      scales = false;
      if (activates && next.inputs[0] == result && activation_of(graph, next)) {
        step.emplace();
        activates = false;
      } else if (sums) {
        step = sum_of(graph, next, result, *joined);
        sums = false;
      }
    }
    if (!step) return changed;
    hoist(graph, *joined, user, *step);
    changed = true;
  }
}

}  // namespace

bool hoist_before_concat(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return hoist_at(graph, id); });
}

}  // namespace tenon::passes
