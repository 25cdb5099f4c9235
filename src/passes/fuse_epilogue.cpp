// SPDX-License-Identifier: Apache-2.0
#include "ops/expression.h"
#include "passes/epilogue.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// Its bias and residual have their places between other inputs.
bool is_weight_only(const ir::Node& node) { return node.op == "tenon:WeightOnlyMatMul"; }

}  // namespace

std::optional<ops::Formula> activation_of(const ir::Graph& graph, const ir::Node& node) {
  const auto formula = ops::formula_of(node, [&](size_t at) -> std::optional<float> {
    const auto number = scalar(graph, node.inputs[at]);
    return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
  });
  if (!formula || !ops::expression(formula->id).is_epilogue || ops::expression(formula->id).operands != 1)
    return std::nullopt;
  // Kernels for bytes take bounds apart, which then have to be in order.
  const bool crossed = formula->id == expr::Id::Clip && formula->alpha > formula->beta;
  return crossed ? std::nullopt : formula;
}

bool takes_epilogue(const ir::Graph& graph, const ir::Node& node) {
  if (is_weight_only(node))
    return node.inputs[3] == ir::no_value && !node.has("activation") &&
           graph.value(node.outputs[0]).dtype == DType::f32;
  if (node.op != "Conv" && node.op != "ConvTranspose" && node.op != "MatMul" && node.op != "Gemm") return false;
  const ops::OpDef* op = ops::find(node.op);
  return op && op->max_inputs >= 4 && node.inputs.size() <= 3 && !node.has("activation") && !node.has("residual") &&
         graph.value(node.outputs[0]).dtype == DType::f32;
}

namespace {

/// What takes an activation alone: integer sums that become numbers, and normalisations of groups.
bool only_activates(const ir::Graph& graph, const ir::Node& node) {
  const bool takes = node.op == "tenon:Int8Conv" || node.op == "tenon:Int16Conv" ||
                     node.op == "InstanceNormalization" || node.op == "GroupNormalization";
  return takes && graph.value(node.outputs[0]).dtype == DType::f32 && !node.has("activation") && !node.has("residual");
}

/// The slopes of a PRelu, where it has one for each channel that the anchor makes.
std::optional<std::vector<float>> slopes_of(const ir::Graph& graph, const ir::Node& anchor, const ir::Node& next) {
  const auto formula = ops::formula_of(next, [](size_t) { return std::nullopt; });
  if (!ops::has_trait(anchor.op, ops::Trait::product) || next.inputs.size() != 2 || !formula ||
      formula->id != expr::Id::PRelu)
    return std::nullopt;
  const Tensor* slopes = graph.constant(next.inputs[1]);
  const ir::Shape* shape = shape_of(graph, anchor.outputs[0]);
  if (!slopes || slopes->dtype() != DType::f32 || !shape || shape->empty()) return std::nullopt;
  const bool windows = anchor.op == "ConvTranspose" || ops::has_trait(anchor.op, ops::Trait::convolution);
  const bool first = windows && anchor.text("layout", "") != "NHWC";
  if (first && shape->size() < 2) return std::nullopt;
  const size_t behind = first ? shape->size() - 2 : 0;  // axes behind the channels
  if (!((*shape)[shape->size() - 1 - behind] == ir::Dim(slopes->elements()))) return std::nullopt;
  const Dims& dims = slopes->dims();
  if (dims.rank() <= behind || dims[dims.rank() - 1 - behind] != slopes->elements()) return std::nullopt;
  const std::span<const float> values = slopes->values<float>();
  return std::vector<float>(values.begin(), values.end());
}

bool take_activation(ir::Graph& graph, ir::NodeId id, ir::NodeId user) {
  const ir::Node next = graph.node(user);
  ir::Node& anchor = graph.node(id);
  if (anchor.has("activation") || anchor.text("residual", "") == "after" || next.inputs[0] != anchor.outputs[0])
    return false;
  if (auto slopes = slopes_of(graph, anchor, next)) {
    anchor.attributes["activation"] = ops::expression(expr::Id::PRelu).word;
    anchor.attributes["slopes"] = std::move(*slopes);
    return true;
  }
  const auto activation = activation_of(graph, next);
  if (!activation) return false;
  const ops::Expression& what = ops::expression(activation->id);
  // Gemm has an alpha and a beta of its own.
  if (anchor.op == "Gemm" && what.parameters.count > 0) return false;
  anchor.attributes["activation"] = what.word;
  if (what.parameters.count > 0) anchor.attributes["alpha"] = activation->alpha;
  if (what.parameters.count > 1) anchor.attributes["beta"] = activation->beta;
  return true;
}

/// A vector added along the last axis is the bias of a product.
bool take_bias(ir::Graph& graph, ir::NodeId id, ir::ValueId other) {
  const ir::Node& anchor = graph.node(id);
  const Tensor* bias = graph.constant(other);
  const ir::Shape* shape = shape_of(graph, anchor.outputs[0]);
  const bool has_none =
      is_weight_only(anchor) ? anchor.inputs[2] == ir::no_value : anchor.op == "MatMul" && anchor.inputs.size() == 2;
  if (!has_none || anchor.has("activation") || anchor.has("residual") || !bias || !shape) return false;
  if (shape->empty() || !(shape->back() == ir::Dim(bias->elements())) || bias->dims().rank() == 0 ||
      bias->dims().back() != bias->elements())
    return false;
  if (bias->dims().rank() > shape->size()) return false;
  const ir::ValueId flat =
      bias->dims().rank() == 1 ? other : graph.add_constant("", bias->reshaped({bias->elements()}));
  if (is_weight_only(anchor)) graph.set_input(id, 2, flat);
  else graph.add_input(id, flat);
  return true;
}

bool take_sum(ir::Graph& graph, ir::NodeId id, ir::NodeId user) {
  const ir::Node add = graph.node(user);
  const ir::ValueId from = graph.node(id).outputs[0];
  if (add.op != "Add" || add.inputs[0] == add.inputs[1]) return false;
  const ir::ValueId other = add.inputs[add.inputs[0] == from ? 1 : 0];
  if (!same_shape(graph, from, add.outputs[0])) return false;
  if (take_bias(graph, id, other)) return true;
  if (graph.node(id).has("residual") || !same_shape(graph, from, other) || graph.value(other).dtype != DType::f32)
    return false;
  // Of two anchors that meet in a sum, the later one adds, so that what it adds is ready.
  const ir::Node* candidate = graph.producer(other);
  if (candidate && graph.only_user(other) != ir::no_node && graph.value(other).producer > id &&
      takes_epilogue(graph, *candidate))
    return false;
  std::vector<ir::ValueId> inputs = graph.node(id).inputs;
  if (inputs.size() <= 3) inputs.resize(4, ir::no_value);
  inputs[3] = other;
  graph.node(id).attributes["residual"] = std::string(graph.node(id).has("activation") ? "after" : "before");
  graph.set_inputs(id, inputs);
  return true;
}

/// Puts a node behind moves before them, where its first input is what they move.
void hoist(ir::Graph& graph, ir::NodeId user, const std::vector<ir::NodeId>& moves,
           const std::vector<ir::ValueId>& inputs) {
  const ir::Node next = graph.node(user);
  const ir::ValueId result = inputs[0];
  graph.replace_uses(next.outputs[0], graph.node(moves.back()).outputs[0]);
  graph.remove(user);
  const ir::ValueId active = graph.apply(next.op, inputs, next.attributes, next.origins, graph.value(result).name);
  graph.value(active).shape = graph.value(result).shape;
  graph.value(active).dtype = graph.value(result).dtype;
  graph.set_input(moves.front(), 0, active);
}

/// An activation behind reshapes and transposes of the anchor's result goes before them: it works on elements wherever
/// they lie.
bool hoist_activation(ir::Graph& graph, ir::NodeId id) {
  std::vector<ir::NodeId> moves;
  ir::NodeId user = graph.only_user(graph.node(id).outputs[0]);
  while (user != ir::no_node && (graph.node(user).op == "Reshape" || graph.node(user).op == "Transpose") &&
         graph.node(user).inputs[0] == graph.node(moves.empty() ? id : moves.back()).outputs[0]) {
    moves.push_back(user);
    user = graph.only_user(graph.node(user).outputs[0]);
  }
  if (moves.empty() || user == ir::no_node || graph.node(user).outputs.size() != 1) return false;
  const ir::Node next = graph.node(user);
  if (next.inputs[0] != graph.node(moves.back()).outputs[0] || !activation_of(graph, next)) return false;
  std::vector<ir::ValueId> inputs = next.inputs;
  inputs[0] = graph.node(id).outputs[0];
  hoist(graph, user, moves, inputs);
  return true;
}

/// The reshapes behind a node's result, one behind the other, which nobody else reads.
std::vector<ir::NodeId> reshapes_behind(const ir::Graph& graph, ir::NodeId id) {
  std::vector<ir::NodeId> found;
  for (ir::ValueId value = graph.node(id).outputs[0];;) {
    const ir::NodeId user = graph.only_user(value);
    if (user == ir::no_node || graph.node(user).op != "Reshape" || graph.node(user).inputs[0] != value) return found;
    found.push_back(user);
    value = graph.node(user).outputs[0];
  }
}

/// A value as a reshape of it gives it; no_value where sizes are not known.
ir::ValueId reshaped_as(ir::Graph& graph, ir::ValueId value, const ir::Shape& shape, const ir::Node& user) {
  const ir::Node* maker = graph.producer(value);
  if (maker && maker->op == "Reshape")
    if (const ir::Shape* from = shape_of(graph, maker->inputs[0]); from && *from == shape) return maker->inputs[0];
  const ir::Shape* from = shape_of(graph, value);
  const std::string name = graph.value(value).name;
  const auto list = from ? reshape_list(graph, name + ".shape", *from, shape) : std::nullopt;
  if (!list) return ir::no_value;
  const ir::ValueId result = graph.apply("Reshape", {value, *list}, {}, user.origins, name);
  graph.value(result).shape = shape, graph.value(result).dtype = graph.value(value).dtype;
  return result;
}

/// A sum, or an activation with a slope for each channel, behind reshapes of the result of a convolution goes before
/// them, as the frames of a volume are its images.
bool hoist_before_reshapes(ir::Graph& graph, ir::NodeId id) {
  const ir::Node anchor = graph.node(id);
  if (anchor.op != "Conv" || anchor.text("layout", "") != "NHWC") return false;
  const std::vector<ir::NodeId> moves = reshapes_behind(graph, id);
  if (moves.empty()) return false;
  const ir::ValueId result = anchor.outputs[0], moved = graph.node(moves.back()).outputs[0];
  const ir::NodeId user = graph.only_user(moved);
  const ir::Shape *shape = shape_of(graph, result), *behind = shape_of(graph, moved);
  if (user == ir::no_node || !shape || !behind || shape->empty() || behind->empty()) return false;
  const ir::Node next = graph.node(user);
  std::vector<ir::ValueId> inputs;
  if (next.op == "PRelu" && next.inputs[0] == moved && shape->back() == behind->back()) {
    const Tensor* slopes = graph.constant(next.inputs[1]);
    if (!slopes || !(shape->back() == ir::Dim(slopes->elements())) || slopes->dims().rank() == 0 ||
        slopes->dims().back() != slopes->elements())
      return false;
    inputs = {result, graph.add_constant("", slopes->reshaped({slopes->elements()}))};
  } else if (next.op == "Add" && next.inputs[0] != next.inputs[1] && !anchor.has("residual")) {
    const ir::ValueId other = next.inputs[next.inputs[0] == moved ? 1 : 0];
    if (graph.constant(other) || !same_shape(graph, moved, other) || !same_shape(graph, moved, next.outputs[0]))
      return false;
    const ir::ValueId lies = reshaped_as(graph, other, ir::Shape(*shape), next);
    if (lies == ir::no_value) return false;
    inputs = {result, lies};
  } else {
    return false;
  }
  hoist(graph, user, moves, inputs);
  return true;
}

bool fuse_epilogue_at(ir::Graph& graph, ir::NodeId id) {
  const bool alone = only_activates(graph, graph.node(id));
  if (!alone && !takes_epilogue(graph, graph.node(id))) return false;
  bool changed = false;
  for (;;) {
    changed |= hoist_activation(graph, id) || (!alone && hoist_before_reshapes(graph, id));
    const ir::ValueId result = graph.node(id).outputs[0];
    const ir::NodeId user = graph.only_user(result);
    if (user == ir::no_node || graph.node(user).outputs.size() != 1) return changed;
    if (!take_activation(graph, id, user) && (alone || !(take_affine(graph, id, user) || take_sum(graph, id, user))))
      return changed;
    ir::Node& anchor = graph.node(id);
    anchor.origins = joined(anchor.origins, graph.node(user).origins);
    const ir::ValueId end = graph.node(user).outputs[0];
    graph.replace_uses(end, result);
    graph.remove(user);
    changed = true;
  }
}

}  // namespace

bool fuse_epilogue(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return fuse_epilogue_at(graph, id); });
}

}  // namespace tenon::passes
