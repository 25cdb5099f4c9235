// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "passes/int8_weights.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "passes/quantised_operands.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The QuantizeLinear to `byte` that alone reads a value, of one scale or (`by_channel`, of u8) one for each channel;
/// no_node otherwise.
ir::NodeId quantiser_of(const ir::Graph& graph, ir::ValueId id, DType byte, bool by_channel = false) {
  const ir::NodeId user = graph.only_user(id);
  if (user == ir::no_node) return ir::no_node;
  const ir::Node& node = graph.node(user);
  if (node.op != "QuantizeLinear") return ir::no_node;
  return has_one_scale(graph, node, byte) || (by_channel && byte == DType::u8 && has_last_scales(graph, node))
             ? user
             : ir::no_node;
}

/// How many leading inputs of an op hold data that it moves without looking at it; 0: it does more. The largest of some
/// numbers has the largest byte.
size_t moved_inputs(const ir::Node& node) {
  static const std::set<std::string> ops{"Reshape", "Transpose", "Slice", "Split", "Squeeze", "Unsqueeze", "Flatten"};
  if (node.op == "Concat") return node.inputs.size();
  if (node.op == "MaxPool") return node.outputs.size() == 1 && node.text("layout", "") == "NHWC" ? 1 : 0;
  if (node.op == "Resize") return node.text("mode", "nearest") == "nearest" ? 1 : 0;
  return ops.count(node.op) ? 1 : 0;
}

void dequantise_outputs(ir::Graph& graph, const ir::Node& node, ir::NodeId made, const Bytes& like) {
  for (size_t at = 0; at < node.outputs.size(); ++at) {
    if (node.outputs[at] == ir::no_value) continue;
    const ir::ValueId bytes = graph.node(made).outputs[at];
    const ir::Value old = graph.value(node.outputs[at]);
    graph.value(bytes).shape = old.shape;
    graph.value(bytes).dtype = graph.value(like.value).dtype;
    const ir::ValueId real =
        graph.apply("DequantizeLinear", {bytes, like.scale, like.zero}, {}, node.origins, old.name);
    graph.value(real).shape = old.shape;
    graph.value(real).dtype = DType::f32;
    graph.replace_uses(node.outputs[at], real);
  }
}

/// Moving bytes is cheaper than moving the numbers they stand for.
bool sink_dequantise(ir::Graph& graph, ir::NodeId id, DType byte) {
  const ir::Node node = graph.node(id);
  const size_t moved = moved_inputs(node);
  if (moved == 0) return false;
  std::vector<ir::ValueId> inputs = node.inputs;
  const auto first = bytes_of(graph, inputs[0], byte);
  if (!first) return false;
  for (size_t at = 0; at < moved; ++at) {
    const auto bytes = bytes_of(graph, inputs[at], byte);
    if (!bytes || !same_scale(graph, *bytes, *first)) return false;
    inputs[at] = bytes->value;
  }
  std::vector<ir::ValueId> outputs;
  for (ir::ValueId output : node.outputs)
    outputs.push_back(output == ir::no_value ? output : graph.add_value(graph.value(output).name + ".bytes"));
  const ir::NodeId made = graph.add_node(node.op, inputs, outputs, node.attributes, node.origins);
  dequantise_outputs(graph, node, made, *first);
  graph.remove(id);
  return true;
}

/// How many leading inputs of an op hold data that may as well be quantised before it, as there is no more of it than
/// behind it; 0: none.
size_t raised_inputs(const ir::Node& node, DType byte) {
  if (node.op == "Concat") return node.inputs.size();
  if (byte != DType::u8) return 0;
  if (node.op == "Resize") return node.text("mode", "nearest") == "nearest" ? 1 : 0;
  const bool has_number = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  return node.op == "Pad" && node.text("mode", "constant") != "constant" && !has_number ? 1 : 0;
}

/// Quantising what is concatenated, padded or repeated is doing so to what was quantised.
bool raise_quantise(ir::Graph& graph, ir::NodeId id, DType byte) {
  const ir::Node node = graph.node(id);
  const size_t raised = raised_inputs(node, byte);
  if (raised == 0) return false;
  const ir::NodeId quantiser = quantiser_of(graph, node.outputs[0], byte);
  if (quantiser == ir::no_node) return false;
  const ir::Node end = graph.node(quantiser);
  std::vector<ir::ValueId> parts = node.inputs;
  for (size_t at = 0; at < raised; ++at) {
    const ir::ValueId input = node.inputs[at];
    parts[at] =
        graph.apply("QuantizeLinear", {input, end.inputs[1], end.inputs[2]}, {}, end.origins, graph.value(input).name);
    graph.value(parts[at]).shape = graph.value(input).shape;
    graph.value(parts[at]).dtype = byte;
  }
  const ir::ValueId whole =
      graph.apply(node.op, parts, node.attributes, joined(node.origins, end.origins), graph.value(end.outputs[0]).name);
  graph.value(whole).shape = graph.value(end.outputs[0]).shape;
  graph.value(whole).dtype = byte;
  graph.replace_uses(end.outputs[0], whole);
  graph.remove(quantiser);
  graph.remove(id);
  return true;
}

/// Bytes that are read and stored again on the same scale.
bool cancel_pair(ir::Graph& graph, ir::NodeId id, DType byte) {
  const ir::Node& node = graph.node(id);
  if (node.op != "QuantizeLinear" || !has_one_scale(graph, node, byte)) return false;
  const auto bytes = bytes_of(graph, node.inputs[0], byte);
  if (!bytes || !same_scale(graph, *bytes, {node.inputs[0], node.inputs[1], node.inputs[2]})) return false;
  replace(graph, id, bytes->value);
  return true;
}

/// The numbers that a quantiser turns into bytes for one reader alone, by the scale that this takes them by; no_value
/// otherwise.
ir::ValueId before_quantiser(const ir::Graph& graph, const Bytes& bytes) {
  const ir::Node* node = sole(graph, bytes.value, "QuantizeLinear");
  const DType byte = graph.value(bytes.value).dtype;
  const bool fits = node && has_one_scale(graph, *node, byte) && graph.value(node->inputs[0]).dtype == DType::f32 &&
                    same_scale(graph, bytes, {bytes.value, node->inputs[1], node->inputs[2]});
  return fits ? node->inputs[0] : ir::no_value;
}

const char* conv_of(DType byte) {
  return byte == float8 ? "tenon:Float8Conv" : byte == int16 ? "tenon:Int16Conv" : "tenon:Int8Conv";
}

/// What is on bytes beside an input of that type.
DType beside(DType byte) { return byte == int16 ? DType::u8 : byte; }

/// Makes an Int8Conv or Float8Conv of a node, and of the quantiser that alone reads its result.
bool finish(ir::Graph& graph, ir::NodeId id, DType byte, std::vector<ir::ValueId> inputs,
            const ir::Attributes& attributes, const std::optional<Bytes>& residual) {
  const ir::Node node = graph.node(id);
  const ir::NodeId quantiser = quantiser_of(graph, node.outputs[0], beside(byte), true);
  const bool quantises = quantiser != ir::no_node;
  const ir::Node end = quantises ? graph.node(quantiser) : node;
  inputs.push_back(quantises ? end.inputs[1] : ir::no_value);
  inputs.push_back(quantises ? first_zero(graph, end.inputs[2]) : ir::no_value);
  if (residual) inputs.insert(inputs.end(), {residual->scale, residual->zero});
  while (inputs.back() == ir::no_value) inputs.pop_back();
  const ir::ValueId result =
      graph.apply(conv_of(byte), inputs, attributes, quantises ? joined(node.origins, end.origins) : node.origins,
                  graph.value(end.outputs[0]).name);
  graph.value(result).shape = graph.value(end.outputs[0]).shape;
  graph.value(result).dtype = graph.value(end.outputs[0]).dtype;
  graph.replace_uses(end.outputs[0], result);
  if (quantises) graph.remove(quantiser);
  graph.remove(id);
  return true;
}

bool lower_conv(ir::Graph& graph, ir::NodeId id, DType byte) {
  const ir::Node node = graph.node(id);
  const bool image = node.text("input_layout", "NHWC") != "NHWC";
  if (node.op != "Conv" || node.text("layout", "") != "NHWC") return false;
  auto x = operand_of(graph, node.inputs[0], byte);
  if ((image && (!x || byte == float8)) || (byte == int16 && (image || node.integer("group", 1) != 1))) return false;
  auto w = quantised_weights(graph, node.inputs[1], 0, byte);
  if (w && !x && byte == DType::u8) x = depthwise_by_channel(graph, node, *w);
  if (!x || !w) return false;
  const bool int16_weights = graph.constant(w->value)->dtype() == DType::i16;
  if (image && !int16_weights && graph.only_user(node.inputs[0]) == id)
    if (const ir::ValueId real = before_quantiser(graph, *x); real != ir::no_value) x->value = real;
  if (graph.constant(w->value)->dims().rank() != 4) return false;
  if (!holds_products(graph, *x, *graph.constant(w->value))) return false;
  std::vector<ir::ValueId> inputs{x->value, w->value, ir::no_value, ir::no_value, x->scale, x->zero, w->scales};
  if (node.inputs.size() > 2) inputs[2] = node.inputs[2];
  if (inputs[2] != ir::no_value && !graph.constant(inputs[2])) return false;
  std::optional<Bytes> residual;
  if (node.has("residual")) {
    residual = residual_of(graph, node.inputs[3], beside(byte));
    if (!residual) return false;
    inputs[3] = residual->value;
  }
  return finish(graph, id, byte, std::move(inputs), node.attributes, residual);
}

/// The mean over a small image is a window of ones over all of it.
bool lower_average(ir::Graph& graph, ir::NodeId id, DType byte) {
  constexpr int64_t most_taps = 49;
  const ir::Node& node = graph.node(id);
  if (node.op != "GlobalAveragePool" || node.text("layout", "") != "NHWC" || byte == float8) return false;
  const auto x = bytes_of(graph, node.inputs[0], byte);
  const ir::Shape* shape = shape_of(graph, node.inputs[0]);
  if (!x || !shape || shape->size() != 4) return false;
  for (size_t axis = 1; axis < 4; ++axis)
    if (!(*shape)[axis].is_constant()) return false;
  const int64_t height = (*shape)[1].value(), width = (*shape)[2].value(), channels = (*shape)[3].value();
  if (height < 1 || width < 1 || height > most_taps || width > most_taps || height * width > most_taps) return false;
  Tensor ones(DType::i8, {channels, 1, height, width});
  std::fill_n(ones.data<int8_t>(), ones.elements(), int8_t{1});
  const ir::ValueId weights = graph.add_constant("", ones);
  const ir::ValueId share = constant(graph, "", {1}, {1.f / static_cast<float>(height * width)});
  return finish(graph, id, byte, {x->value, weights, ir::no_value, ir::no_value, x->scale, x->zero, share},
                {{"layout", std::string("NHWC")}, {"group", channels}}, std::nullopt);
}

/// A product of rows by a matrix as a convolution of 1x1. What it adds is added in it where that is of bytes, else
/// behind it, as numbers: the sum of a transformer's layers stays one.
bool lower_product(ir::Graph& graph, ir::NodeId id, DType byte) {
  const ir::Node node = graph.node(id);
  const bool gemm = node.op == "Gemm", transposed = gemm && node.integer("transB", 0);
  if (!gemm && node.op != "MatMul") return false;
  if (gemm && (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1)) return false;
  const auto x = operand_of(graph, node.inputs[0], byte);
  const auto w = x ? quantised_weights(graph, node.inputs[1], transposed ? 0 : 1, byte) : std::nullopt;
  const std::optional<ir::Shape> from = graph.value(node.inputs[0]).shape, to = graph.value(node.outputs[0]).shape;
  if (!x || !w || !from || !to || from->size() < 2) return false;
  const Tensor given = *graph.constant(w->value);
  if (given.dims().rank() != 2) return false;
  const int64_t n = given.dims()[transposed ? 0 : 1], k = given.dims()[transposed ? 1 : 0];
  ir::ValueId bias = ir::no_value;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) {
    const Tensor* list = graph.constant(node.inputs[2]);
    if (!list || list->dtype() != DType::f32 || list->elements() != n || list->dims().back() != n) return false;
    bias = graph.add_constant("", list->reshaped({n}));
  }
  const auto residual = node.has("residual") ? bytes_of(graph, node.inputs[3], beside(byte)) : std::nullopt;
  const bool adds_behind = node.has("residual") && !residual;
  if (adds_behind && node.has("activation") && node.text("residual", "") == "before") return false;
  const Tensor rows = transposed ? given.reshaped({n, k, 1, 1}) : by_rows(given);
  if (!holds_products(graph, *x, rows)) return false;
  std::vector<int64_t> back;  // with the one size that is not known as what is left
  for (const ir::Dim& dim : *to) back.push_back(dim.is_constant() ? dim.value() : -1);
  if (std::count(back.begin(), back.end(), -1) > 1) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto pixels_of = [&](ir::ValueId value, int64_t channels, const char* suffix) {
    const ir::ValueId pixels =
        graph.apply("Reshape", {value, constant(graph, "", {-1, 1, 1, channels})}, {}, node.origins, name + suffix);
    graph.value(pixels).dtype = graph.value(value).dtype;
    return pixels;
  };
  ir::Attributes attributes{{"layout", std::string("NHWC")}};
  for (const char* word : {"activation", "residual"})
    if (node.has(word) && !(adds_behind && word == std::string("residual"))) attributes[word] = node.text(word, "");
  if (node.has("slopes")) attributes["slopes"] = node.reals("slopes");
  if (!gemm)
    for (const char* bound : {"alpha", "beta"})
      if (node.has(bound)) attributes[bound] = node.real(bound, 0);
  std::vector<ir::ValueId> inputs{pixels_of(x->value, k, ".pixels"),
                                  graph.add_constant("", rows),
                                  bias,
                                  ir::no_value,
                                  x->scale,
                                  x->zero,
                                  w->scales};
  if (residual) inputs[3] = pixels_of(residual->value, n, ".residual");
  const ir::NodeId quantiser = adds_behind ? ir::no_node : quantiser_of(graph, node.outputs[0], beside(byte));
  const ir::Node end = quantiser != ir::no_node ? graph.node(quantiser) : node;
  const bool quantises = quantiser != ir::no_node;
  if (quantises) inputs.insert(inputs.end(), {end.inputs[1], end.inputs[2]});
  if (residual) inputs.resize(9, ir::no_value), inputs.insert(inputs.end(), {residual->scale, residual->zero});
  const std::vector<std::string> origins = quantises ? joined(node.origins, end.origins) : node.origins;
  const ir::ValueId result = graph.apply(conv_of(byte), inputs, attributes, origins, name + ".products");
  graph.value(result).dtype = graph.value(end.outputs[0]).dtype;
  const auto known = [&](ir::ValueId value) {
    graph.value(value).shape = to, graph.value(value).dtype = graph.value(result).dtype;
    return value;
  };
  const std::string last = graph.value(end.outputs[0]).name;
  ir::ValueId shaped = known(
      graph.apply("Reshape", {result, constant(graph, "", back)}, {}, origins, adds_behind ? last + ".rows" : last));
  if (adds_behind) shaped = known(graph.apply("Add", {shaped, node.inputs[3]}, {}, origins, last));
  graph.replace_uses(end.outputs[0], shaped);
  if (quantises) graph.remove(quantiser);
  graph.remove(id);
  return true;
}

bool lower_bytes(ir::Graph& graph, DType byte) {
  bool changed = false;
  for (bool more = true; more; changed |= more) {
    more = each_node(graph, [&](ir::NodeId id) { return sink_dequantise(graph, id, byte); });
    for (const auto step : {raise_quantise, cancel_pair})
      more |= each_node(graph, [&](ir::NodeId id) { return step(graph, id, byte); });
  }
  for (const auto lower : {lower_conv, lower_average, lower_product})
    changed |= each_node(graph, [&](ir::NodeId id) { return lower(graph, id, byte); });
  return changed;
}

}  // namespace

bool lower_quantised(ir::Graph& graph) {
  const bool changed = unsigned_bytes(graph);
  return lower_bytes(graph, DType::u8) || changed;
}

bool lower_int16(ir::Graph& graph) {
  if (!fake_quantize16(graph)) return false;
  int16_patches_to_products(graph);
  split_int16_products(graph);
  each_node(graph, [&](ir::NodeId id) { return lower_conv(graph, id, int16) || lower_product(graph, id, int16); });
  int16_inputs(graph);
  return true;
}

bool lower_float8(ir::Graph& graph) { return lower_bytes(graph, float8); }

}  // namespace tenon::passes
