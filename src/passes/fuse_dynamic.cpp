// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/int8_weights.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Integer sums and the nodes behind them that make numbers of these.
struct Match {
  ir::ValueId x_scale, w_scale, bias, result;
  std::vector<ir::NodeId> behind;
  std::vector<std::string> origins;
};

/// Whether a constant is one number, or one for each of `count` entries of the last axis.
bool is_row(const Tensor& list, int64_t count) {
  return list.dtype() == DType::f32 &&
         (list.elements() == 1 || (list.elements() == count && list.dims().back() == count));
}

ir::ValueId other_input(const ir::Node& node, ir::ValueId one) { return node.inputs[node.inputs[0] == one ? 1 : 0]; }

/// The sole reader of a value if it is this op and gives an f32 tensor of the same shape; no_node otherwise.
ir::NodeId reader(const ir::Graph& graph, ir::ValueId value, const char* op) {
  const ir::NodeId user = graph.only_user(value);
  if (user == ir::no_node || graph.node(user).op != op) return ir::no_node;
  const ir::ValueId result = graph.node(user).outputs[0];
  return graph.value(result).dtype == DType::f32 && same_shape(graph, value, result) ? user : ir::no_node;
}

/// Cast, then Mul by the product of a scale that is known when it runs and constant ones, then perhaps Add of a bias.
std::optional<Match> match_of(const ir::Graph& graph, ir::ValueId sums, int64_t channels) {
  const ir::NodeId cast = reader(graph, sums, "Cast");
  if (cast == ir::no_node) return std::nullopt;
  const ir::ValueId numbers = graph.node(cast).outputs[0];
  const ir::NodeId mul = reader(graph, numbers, "Mul");
  if (mul == ir::no_node) return std::nullopt;
  const ir::Node* scale = made_by(graph, other_input(graph.node(mul), numbers), "Mul");
  if (!scale) return std::nullopt;
  const size_t weights_at = graph.constant(scale->inputs[0]) ? 0 : 1;
  const ir::ValueId w_scale = scale->inputs[weights_at], x_scale = scale->inputs[1 - weights_at];
  const Tensor* constants = graph.constant(w_scale);
  const ir::Shape* one = shape_of(graph, x_scale);
  if (!constants || !is_row(*constants, channels) || graph.constant(x_scale) || !one ||
      graph.value(x_scale).dtype != DType::f32)
    return std::nullopt;
  for (const ir::Dim& dim : *one)
    if (!(dim == ir::Dim(1))) return std::nullopt;
  Match match{x_scale, w_scale, ir::no_value, graph.node(mul).outputs[0], {cast, mul}, scale->origins};
  const ir::NodeId add = reader(graph, match.result, "Add");
  if (add == ir::no_node) return match;
  const ir::ValueId bias = other_input(graph.node(add), match.result);
  const Tensor* row = graph.constant(bias);
  if (!row || !is_row(*row, channels) || row->elements() != channels) return match;
  match.bias = bias;
  match.result = graph.node(add).outputs[0];
  match.behind.push_back(add);
  return match;
}

/// `value` as a constant of one axis; no_value stays.
ir::ValueId flat(ir::Graph& graph, ir::ValueId value) {
  if (value == ir::no_value) return value;
  const Tensor list = *graph.constant(value);
  return graph.add_constant("", list.reshaped({list.elements()}));
}

/// The sizes of a product's result, for a reshape. Where several are not known they are those of its first operand.
ir::ValueId target(ir::Graph& graph, const ir::Node& node, const std::vector<int64_t>& sizes, const std::string& name) {
  if (std::count(sizes.begin(), sizes.end(), -1) <= 1) return constant(graph, "", sizes);
  const ir::ValueId rows = graph.apply("Shape", {node.inputs[0]}, {{"start", int64_t{0}}, {"end", int64_t{-1}}},
                                       node.origins, name + ".rows");
  graph.value(rows).dtype = DType::i64;
  const ir::ValueId columns = constant(graph, "", {sizes.back()});
  const ir::ValueId all = graph.apply("Concat", {rows, columns}, {{"axis", int64_t{0}}}, node.origins, name + ".sizes");
  graph.value(all).dtype = DType::i64;
  return all;
}

void finish(ir::Graph& graph, ir::NodeId id, const Match& match, ir::ValueId result) {
  graph.value(result).shape = graph.value(match.result).shape;
  graph.value(result).dtype = DType::f32;
  graph.replace_uses(match.result, result);
  for (size_t at = match.behind.size(); at-- > 0;) graph.remove(match.behind[at]);
  graph.remove(id);
}

bool fuse_dynamic_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const bool product = node.op == "MatMulInteger";
  if (!product && (node.op != "ConvInteger" || node.text("layout", "") != "NHWC")) return false;
  const auto input = [&](size_t at) { return at < node.inputs.size() ? node.inputs[at] : ir::no_value; };
  enum : size_t { x_at, w_at, x_zero_at, w_zero_at };
  const Tensor* weights = graph.constant(input(w_at));
  const Tensor* zeros = graph.constant(input(w_zero_at));
  const ir::Shape *from = shape_of(graph, input(x_at)), *zero = shape_of(graph, input(x_zero_at));
  if (!weights || (input(w_zero_at) != ir::no_value && !zeros) || !from || !zero || !zero->empty()) return false;
  if (graph.value(input(x_at)).dtype != DType::u8 || weights->dims().rank() != (product ? 2 : 4)) return false;
  if (from->size() < 2 || !graph.value(node.outputs[0]).shape) return false;
  std::vector<int64_t> sizes;  // with the one that is not known as what is left
  for (const ir::Dim& dim : *shape_of(graph, node.outputs[0])) sizes.push_back(dim.is_constant() ? dim.value() : -1);
  const size_t axis = product ? 1 : 0;
  const int64_t channels = weights->dims()[axis];
  if (zeros && zeros->elements() != 1 && zeros->elements() != channels) return false;
  const auto match = match_of(graph, node.outputs[0], channels);
  if (!match) return false;
  const Tensor bytes = centred(*weights, zeros, axis);
  std::vector<std::string> origins = node.origins;
  for (ir::NodeId behind : match->behind) origins = joined(origins, graph.node(behind).origins);
  origins = joined(origins, match->origins);
  const ir::ValueId w = graph.add_constant("", product ? by_rows(bytes) : bytes);
  std::vector<ir::ValueId> inputs{input(x_at),
                                  w,
                                  flat(graph, match->bias),
                                  ir::no_value,
                                  match->x_scale,
                                  input(x_zero_at),
                                  flat(graph, match->w_scale)};
  ir::Attributes attributes = node.attributes;
  attributes.insert_or_assign("layout", std::string("NHWC"));
  const std::string name = graph.value(match->result).name;
  if (!product) {
    finish(graph, id, *match, graph.apply("tenon:Int8Conv", inputs, attributes, origins, name));
    return true;
  }
  inputs[x_at] = graph.apply("Reshape", {input(x_at), constant(graph, "", {-1, 1, 1, bytes.dims()[0]})}, {},
                             node.origins, name + ".pixels");
  graph.value(inputs[x_at]).dtype = DType::u8;
  const ir::ValueId made = graph.apply("tenon:Int8Conv", inputs, attributes, origins, name + ".products");
  graph.value(made).dtype = DType::f32;
  finish(graph, id, *match, graph.apply("Reshape", {made, target(graph, node, sizes, name)}, {}, origins, name));
  return true;
}

}  // namespace

bool fuse_dynamic(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return fuse_dynamic_at(graph, id); });
}

}  // namespace tenon::passes
