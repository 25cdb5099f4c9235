// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/passes.h"
#include "passes/ramps.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// Whether all axes that go away are known to be of one element: a Reshape would not refuse others.
bool leaves_ones_out(const ir::Graph& graph, const ir::Node& node, const ir::Shape& from) {
  const auto axes = node.inputs.size() > 1 ? integers(graph, node.inputs[1]) : std::nullopt;
  if (!axes) return ir::is_constant(from) && (node.inputs.size() < 2 || node.inputs[1] == ir::no_value);
  return std::all_of(axes->begin(), axes->end(), [&](int64_t axis) {
    const auto at = axis_of(axis, from.size());
    return at && from[*at] == ir::Dim(1);
  });
}

/// Squeeze, Unsqueeze and Flatten are Reshape.
bool to_reshape(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Squeeze" && node.op != "Unsqueeze" && node.op != "Flatten") return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || graph.value(node.inputs[0]).dtype == DType::string) return false;
  if (node.op == "Squeeze" && !leaves_ones_out(graph, node, *from)) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto list = reshape_list(graph, name + ".shape", *from, *to);
  if (!list) return false;
  replace(graph, id, graph.apply("Reshape", {node.inputs[0], *list}, {}, node.origins, name));
  return true;
}

/// A mean over all spatial axes is a global pool, which backends have kernels for.
bool to_global_pool(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "ReduceMean" || node.inputs.size() < 2) return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  const auto axes = integers(graph, node.inputs[1]);
  if (!from || !to || from->size() != 4 || !axes || axes->size() != 2 ||
      graph.value(node.inputs[0]).dtype != DType::f32)
    return false;
  for (int64_t axis : *axes)
    if (axis != 2 && axis != 3 && axis != -1 && axis != -2) return false;
  if (((*axes)[0] - (*axes)[1]) % 4 == 0) return false;
  const bool keeps = node.integer("keepdims", 1) != 0;
  const auto target = reshape_target({(*from)[0], (*from)[1], 1, 1}, *to);
  if (!keeps && !target) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::ValueId pooled = graph.apply("GlobalAveragePool", {node.inputs[0]}, {}, node.origins, name);
  if (!keeps)
    pooled = graph.apply("Reshape", {pooled, constant(graph, name + ".shape", *target)}, {}, node.origins, name);
  replace(graph, id, pooled);
  return true;
}

/// A sum over axes that is divided by their size is a mean.
bool to_mean(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if ((node.op != "Mul" && node.op != "Div") || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  for (size_t side = 0; side < (node.op == "Div" ? 1u : 2u); ++side) {
    const ir::Node* sum = sole(graph, node.inputs[side], "ReduceSum");
    const auto number = scalar(graph, node.inputs[1 - side]);
    const auto axes = sum && sum->inputs.size() > 1 ? integers(graph, sum->inputs[1]) : std::nullopt;
    const ir::Shape* from = sum ? shape_of(graph, sum->inputs[0]) : nullptr;
    if (!number || !axes || axes->empty() || !from || !same_shape(graph, node.inputs[side], node.outputs[0])) continue;
    ir::Dim count(1);
    for (const int64_t axis : *axes)
      if (const auto at = axis_of(axis, from->size())) count = count * (*from)[*at];
    if (!count.is_constant()) continue;
    const auto elements = static_cast<double>(count.value());
    if (std::abs((node.op == "Div" ? *number / elements : *number * elements) - 1) > 1e-6) continue;
    replace(graph, id,
            graph.apply("ReduceMean", sum->inputs, sum->attributes, joined(sum->origins, node.origins),
                        graph.value(node.outputs[0]).name));
    return true;
  }
  return false;
}

/// A softmax of the rows that a tensor's last axes make, as it was up to opset 12: of one axis where others are of one
/// element.
bool to_axis_softmax(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Reshape") return false;
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    const ir::Node* rows = sole(graph, node.inputs[0], op);
    const ir::Node* flat = rows ? made_by(graph, rows->inputs[0], "Reshape") : nullptr;
    if (!flat || !same_shape(graph, flat->inputs[0], node.outputs[0])) continue;
    const ir::Shape &matrix = *shape_of(graph, node.inputs[0]), &x = *shape_of(graph, node.outputs[0]);
    const auto axis_of_rows = axis_of(rows->integer("axis", -1), matrix.size());
    if (x.empty() || axis_of_rows != matrix.size() - 1) continue;
    size_t axis = x.size() - 1;
    while (axis > 0 && x[axis] == ir::Dim(1)) --axis;
    if (!(x[axis] == matrix.back())) continue;
    const std::vector<std::string> origins = joined(joined(flat->origins, rows->origins), node.origins);
    replace(graph, id,
            graph.apply(op, {flat->inputs[0]}, {{"axis", static_cast<int64_t>(axis)}}, origins,
                        graph.value(node.outputs[0]).name));
    return true;
  }
  return false;
}

/// Sum of two is Add; larger of x and a number, then smaller, is Clip; a Clip from 0 up is Relu.
bool to_simple(ir::Graph& graph, ir::NodeId id) {
  ir::Node& node = graph.node(id);
  if (node.op == "Sum" && node.inputs.size() == 2) {
    node.op = "Add";
    return true;
  }
  const bool max = node.op == "Max", min = node.op == "Min";
  if ((max || min) && node.inputs.size() == 2 && graph.value(node.outputs[0]).dtype == DType::f32) {
    const size_t at = graph.constant(node.inputs[0]) ? 0 : 1;
    const Tensor* bound = graph.constant(node.inputs[at]);
    if (!bound || bound->elements() != 1 || !same_shape(graph, node.inputs[1 - at], node.outputs[0])) return false;
    ir::ValueId from = node.inputs[1 - at];
    const ir::ValueId limit = bound->dims().rank() == 0 ? node.inputs[at] : graph.add_constant("", bound->reshaped({}));
    ir::Node& changed = graph.node(id);
    changed.op = "Clip";
    // A minimum over a clip that has no upper bound joins it.
    ir::ValueId low = max ? limit : ir::no_value;
    if (const ir::Node* clip = min ? sole(graph, from, "Clip") : nullptr;
        clip && (clip->inputs.size() < 3 || clip->inputs[2] == ir::no_value)) {
      const auto floor = clip->inputs.size() > 1 ? scalar(graph, clip->inputs[1]) : std::nullopt;
      if (floor && *floor <= *scalar(graph, limit)) {
        low = clip->inputs[1];
        from = clip->inputs[0];
        changed.origins = joined(clip->origins, changed.origins);
      }
    }
    graph.set_inputs(id, max ? std::vector<ir::ValueId>{from, low} : std::vector<ir::ValueId>{from, low, limit});
    return true;
  }
  if (node.op == "Clip" && is_float(graph.value(node.outputs[0]).dtype)) {
    const bool open = node.inputs.size() < 3 || node.inputs[2] == ir::no_value ||
                      (scalar(graph, node.inputs[2]) && *scalar(graph, node.inputs[2]) >= 3.4e38);
    if (!open || node.inputs.size() < 2 || scalar(graph, node.inputs[1]) != 0.0) return false;
    node.op = "Relu";
    graph.set_inputs(id, {node.inputs[0]});
    return true;
  }
  return false;
}

/// Whole rows that are scattered by one index each, which was repeated for all their elements.
bool to_row_scatter(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "ScatterElements" || node.integer("axis", 0) != 0) return false;
  const ir::Node* expand = made_by(graph, node.inputs[1], "Expand");
  if (!expand || graph.value(node.inputs[1]).dtype != DType::i64) return false;
  const ir::Shape *data = shape_of(graph, node.inputs[0]), *updates = shape_of(graph, node.inputs[2]),
                  *rows = shape_of(graph, expand->inputs[0]);
  if (!data || !updates || !rows || data->size() < 2 || updates->size() != data->size() ||
      rows->size() != data->size() || !((*rows)[0] == (*updates)[0]))
    return false;
  for (size_t axis = 1; axis < data->size(); ++axis)
    if (!((*rows)[axis] == ir::Dim(1)) || !((*updates)[axis] == (*data)[axis])) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::Attributes attributes = node.attributes;
  attributes.erase("axis");
  const ir::ValueId indices =
      graph.apply("Reshape", {expand->inputs[0], constant(graph, name + ".tuples", {-1, 1})}, {}, node.origins, name);
  replace(graph, id,
          graph.apply("ScatterND", {node.inputs[0], indices, node.inputs[2]}, attributes, node.origins, name));
  return true;
}

/// All elements of a row picked in their order are a Reshape of it.
bool to_whole(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Gather") return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || from->size() != 1 || !(product(*to) == from->front()) || graph.constant(node.inputs[0]))
    return false;
  const auto ramp = ramp_of(graph, node.inputs[1]);
  const auto target = ramp ? reshape_target(*from, *to) : std::nullopt;
  if (!target || !(ramp->start == ir::Dim(0))) return false;
  ir::Dim step(1);
  for (size_t axis = to->size(); axis-- > 0; step = step * (*to)[axis])
    if (!((*to)[axis] == ir::Dim(1)) && !(step == ir::Dim(ramp->steps[axis]))) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  replace(graph, id,
          graph.apply("Reshape", {node.inputs[0], constant(graph, name + ".shape", *target)}, {}, node.origins, name));
  return true;
}

/// DepthToSpace and SpaceToDepth are a Transpose of split axes.
bool to_transpose(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const bool to_space = node.op == "DepthToSpace";
  if ((!to_space && node.op != "SpaceToDepth") || node.text("layout", "NCHW") != "NCHW") return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || from->size() != 4 || to->size() != 4) return false;
  const ir::Dim block(node.integer("blocksize", 1));
  ir::Shape split;
  Perm perm;
  if (!to_space) split = {(*from)[0], (*from)[1], (*to)[2], block, (*to)[3], block}, perm = {0, 3, 5, 1, 2, 4};
  else if (node.text("mode", "DCR") == "CRD")
    split = {(*from)[0], (*to)[1], block, block, (*from)[2], (*from)[3]}, perm = {0, 1, 4, 2, 5, 3};
  else split = {(*from)[0], block, block, (*to)[1], (*from)[2], (*from)[3]}, perm = {0, 3, 4, 1, 5, 2};
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::Shape joined_shape = *to;
  const auto parts = reshape_list(graph, name + ".shape", *from, split);
  const auto joins = parts ? reshape_list(graph, name + ".shape", permuted(split, perm), joined_shape) : std::nullopt;
  if (!joins) return false;
  const auto reshaped = [&](ir::ValueId value, ir::ValueId list) {
    return graph.apply("Reshape", {value, list}, {}, node.origins, name);
  };
  const ir::ValueId turned =
      graph.apply("Transpose", {reshaped(node.inputs[0], *parts)}, {{"perm", perm}}, node.origins, name);
  replace(graph, id, reshaped(turned, *joins));
  return true;
}

/// The numbers from 0 up to so many elements, as a pool of single ones counts its planes; none where they are too many.
std::optional<Tensor> places_in(const ir::Shape& shape) {
  constexpr int64_t most = 1 << 22;
  Dims dims;
  int64_t room = most;
  for (const ir::Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(dim.value());
    room /= std::max<int64_t>(1, dim.value());
  }
  if (room == 0) return std::nullopt;
  std::vector<int64_t> numbers(static_cast<size_t>(dims.elements()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return Tensor::of<int64_t>(DType::i64, dims, numbers);
}

/// A pool of single elements gives them back, and where they lie are numbers from 0 up: exporters slice these to learn
/// where each plane of another pool begins.
bool to_places(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "MaxPool" || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  const auto all_are = [&](const char* name, int64_t number) {
    const std::vector<int64_t> list = node.integers(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t item) { return item == number; });
  };
  if (!all_are("kernel_shape", 1) || !all_are("strides", 1) || !all_are("pads", 0)) return false;
  const ir::ValueId indices = node.outputs.size() > 1 ? node.outputs[1] : ir::no_value;
  if (indices != ir::no_value && (graph.is_output(indices) || !graph.value(indices).users.empty())) {
    const std::vector<ir::NodeId>& users = graph.value(indices).users;
    const bool sliced = std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
      const ir::Node& slice = graph.node(user);
      return slice.op == "Slice" && slice.inputs[0] == indices &&
             std::all_of(slice.inputs.begin() + 1, slice.inputs.end(),
                         [&](ir::ValueId input) { return input == ir::no_value || graph.constant(input); });
    });
    if (!sliced || graph.is_output(indices) || node.integer("storage_order", 0) != 0) return false;
    const auto places = places_in(*shape_of(graph, node.inputs[0]));
    if (!places) return false;
    graph.replace_uses(indices, graph.add_constant(graph.value(indices).name, *places));
  }
  replace(graph, id, node.inputs[0]);
  return true;
}

/// Integers that are added behind their subtraction.
bool to_minuend(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.op != "Add" || graph.value(node.outputs[0]).dtype != DType::i64) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ir::Node* less = made_by(graph, node.inputs[side], "Sub");
    if (!less || !same_shape(graph, less->inputs[0], node.outputs[0])) continue;
    const auto added = integers(graph, node.inputs[1 - side]), taken = integers(graph, less->inputs[1]);
    if (!added || added != taken || !same_shape(graph, node.inputs[1 - side], less->inputs[1])) continue;
    replace(graph, id, less->inputs[0]);
    return true;
  }
  return false;
}

/// Weights of a product with axes of one element before those of the matrix are a matrix.
bool to_matrix(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const Tensor* weights = node.op == "MatMul" ? graph.constant(node.inputs[1]) : nullptr;
  const auto rank = weights ? rank_of(graph, node.inputs[0]) : std::nullopt;
  if (!rank || weights->dims().rank() < 3 || *rank < weights->dims().rank()) return false;
  const Dims& dims = weights->dims();
  const int64_t rows = dims[dims.rank() - 2], columns = dims.back();
  if (rows * columns == 0 || dims.elements() != rows * columns) return false;
  const std::string name = graph.value(node.inputs[1]).name;
  graph.set_input(id, 1, graph.add_constant(name, weights->reshaped({rows, columns})));
  return true;
}

}  // namespace

bool canonical(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    return to_reshape(graph, id) || to_global_pool(graph, id) || to_simple(graph, id) || to_row_scatter(graph, id) ||
           to_transpose(graph, id) || to_mean(graph, id) || to_axis_softmax(graph, id) || to_whole(graph, id) ||
           to_places(graph, id) || to_minuend(graph, id) || to_matrix(graph, id);
  });
}

}  // namespace tenon::passes
