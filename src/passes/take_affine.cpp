// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/expression.h"
#include "passes/epilogue.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The numbers of a constant that has one for each channel of a convolution's result, or one for all.
std::vector<float> by_channel(const ir::Graph& graph, const ir::Node& conv, ir::ValueId value) {
  const Tensor* list = graph.constant(value);
  const ir::Shape* shape = shape_of(graph, conv.outputs[0]);
  if (!list || list->dtype() != DType::f32 || !shape || shape->size() < 3) return {};
  const size_t behind = conv.text("layout", "") == "NHWC" ? 0 : shape->size() - 2;  // axes behind the channels
  const ir::Dim& channels = (*shape)[shape->size() - 1 - behind];
  const Dims& dims = list->dims();
  if (!channels.is_constant() || dims.rank() > shape->size()) return {};
  const auto values = list->values<float>();
  if (values.size() == 1) return std::vector<float>(static_cast<size_t>(channels.value()), values[0]);
  if (dims.rank() <= behind || dims[dims.rank() - 1 - behind] != list->elements() ||
      list->elements() != channels.value())
    return {};
  return {values.begin(), values.end()};
}

ir::ValueId scaled(ir::Graph& graph, ir::ValueId value, const std::vector<float>& by) {
  const Tensor given = *graph.constant(value);
  Tensor result(DType::f32, given.dims());
  const auto rows = static_cast<int64_t>(by.size()), row = given.elements() / rows;
  for (int64_t at = 0; at < given.elements(); ++at)
    result.data<float>()[at] = given.data<float>()[at] * by[static_cast<size_t>(at / row)];
  return graph.add_constant(graph.value(value).name, result);
}

bool is_f32(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  return constant && constant->dtype() == DType::f32;
}

bool has_bias(const ir::Node& conv) { return conv.inputs.size() > 2 && conv.inputs[2] != ir::no_value; }

/// s max(z, 0) is max(s z, 0) where s is positive.
bool take_scale(ir::Graph& graph, ir::NodeId id, const std::vector<float>& by) {
  if (!std::all_of(by.begin(), by.end(), [](float scale) { return scale > 0 && scale < 1e30f; })) return false;
  const ir::Node conv = graph.node(id);
  graph.set_input(id, 1, scaled(graph, conv.inputs[1], by));
  if (has_bias(conv)) graph.set_input(id, 2, scaled(graph, conv.inputs[2], by));
  return true;
}

/// max(z, 0) + b is max(z + b, b).
bool take_shift(ir::Graph& graph, ir::NodeId id, const std::vector<float>& by) {
  if (!is_finite(by)) return false;
  const ir::Node conv = graph.node(id);
  Tensor bias(DType::f32, {static_cast<int64_t>(by.size())});
  for (size_t at = 0; at < by.size(); ++at)
    bias.data<float>()[at] = by[at] + (has_bias(conv) ? graph.constant(conv.inputs[2])->data<float>()[at] : 0.f);
  const ir::ValueId shifted = graph.add_constant(has_bias(conv) ? graph.value(conv.inputs[2]).name : "", bias);
  if (conv.inputs.size() > 2) graph.set_input(id, 2, shifted);
  else graph.add_input(id, shifted);
  ir::Node& anchor = graph.node(id);
  anchor.attributes["activation"] = ops::expression(expr::Id::Max).word;
  anchor.attributes["slopes"] = by;
  return true;
}

}  // namespace

bool take_affine(ir::Graph& graph, ir::NodeId id, ir::NodeId user) {
  const ir::Node conv = graph.node(id), next = graph.node(user);
  if (conv.op != "Conv" || conv.text("activation", "") != ops::expression(expr::Id::Relu).word ||
      conv.has("residual") || (next.op != "Mul" && next.op != "Add") || !is_f32(graph, conv.inputs[1]) ||
      (has_bias(conv) && !is_f32(graph, conv.inputs[2])) || !same_shape(graph, conv.outputs[0], next.outputs[0]))
    return false;
  const ir::ValueId other = next.inputs[next.inputs[0] == conv.outputs[0] ? 1 : 0];
  const std::vector<float> by = by_channel(graph, conv, other);
  if (by.empty()) return false;
  return next.op == "Mul" ? take_scale(graph, id, by) : take_shift(graph, id, by);
}

}  // namespace tenon::passes
