// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "ops/elementwise_program.h"
#include "ops/expression.h"
#include "ops/half.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t fewest_weights = 256;   // of a convolution or product worth f16
constexpr int64_t large_map = 1 << 14;    // results of a convolution that is worth it for what it reads
constexpr int64_t least_depth = 8;        // of a product of two values worth f16: outer products place and scale
constexpr int64_t large_table = 1 << 16;  // elements of a constant
constexpr int64_t most_terms = 256;       // of a sum that 16 bits hold
constexpr auto f32 = static_cast<int64_t>(DType::f32);

Tensor as_16_bits_tensor(const Tensor& tensor, DType type) {
  Tensor result(type, tensor.dims());
  const auto bits = type == DType::f16 ? ops::f16_bits : ops::bf16_bits;
  for (int64_t at = 0; at < tensor.elements(); ++at) result.data<uint16_t>()[at] = bits(tensor.data<float>()[at]);
  return result;
}

/// Only the first operand of these is data; of others all are.
bool first_is_data(const ir::Node& node) {
  return !is_elementwise(node) && !ops::has_trait(node.op, ops::Trait::all_data);
}

/// Whether there are so many results that what reads them gains by 16 bits.
bool is_large_map(const ir::Shape* shape) {
  ir::Dim all(1);
  for (const ir::Dim& dim : shape ? *shape : ir::Shape()) all = all * dim;
  return shape && all.is_constant() && all.value() >= large_map;
}

class Caster {
 public:
  Caster(ir::Graph& graph, DType type)
      : graph_(graph),
        type_(type),
        code_(static_cast<int64_t>(type)),
        want_(graph.values.size(), 0),
        is_16_bit_(want_),
        is_wide_(want_) {}

  bool run() {
    for (const ir::Node& node : graph_.nodes) find_wide(node);
    for (size_t id = graph_.nodes.size(); id-- > 0;) look(graph_.nodes[id]);
    const size_t count = graph_.nodes.size();
    for (size_t id = 0; id < count; ++id) mark(graph_.nodes[id]);
    if (!changed_) return false;
    for (size_t id = 0; id < count; ++id) rewrite(static_cast<ir::NodeId>(id));
    for (ir::ValueId& output : graph_.outputs)
      if (is_16_bit(output)) output = cast(output, f32);
    return true;
  }

 private:
  bool is_f32(ir::ValueId id) const { return id != ir::no_value && graph_.value(id).dtype == DType::f32; }
  bool is_16_bit(ir::ValueId id) const {
    return id != ir::no_value && static_cast<size_t>(id) < is_16_bit_.size() && is_16_bit_[id];
  }
  bool is_anchor(const ir::Node& node) const {
    const Tensor* weights = node.op == "Conv" ? graph_.constant(node.inputs[1]) : nullptr;
    return weights && weights->dtype() == DType::f32 &&
           (weights->elements() >= fewest_weights || node.integer("group", 1) > 1 || is_stem(node) ||
            is_large_map(shape_of(graph_, node.outputs[0]))) &&
           is_f32(node.inputs[0]);
  }
  /// A product of values, or of constants that are no matrix of weights: it gives either type.
  bool is_product(const ir::Node& node) const {
    if (node.op != "MatMul" || !is_f32(node.inputs[0]) || !is_f32(node.inputs[1])) return false;
    for (const size_t at : {size_t{0}, size_t{1}})
      if (const Tensor* tensor = graph_.constant(node.inputs[at]); tensor && tensor->elements() < fewest_weights)
        return false;
    const ir::Shape* left = shape_of(graph_, node.inputs[0]);
    return left && !left->empty() && left->back().is_constant() && left->back().value() >= least_depth;
  }
  /// A product by weights that stay integers.
  bool is_weight_only(const ir::Node& node) const {
    return node.op == "tenon:WeightOnlyMatMul" && is_f32(node.inputs[0]);
  }
  /// What picks a little of a table reads it as it lies, as others may do too.
  bool is_lookup(const ir::Node& node) const {
    const Tensor* table = ops::has_trait(node.op, ops::Trait::moves) && !ops::has_trait(node.op, ops::Trait::all_data)
                              ? graph_.constant(node.inputs[0])
                              : nullptr;
    return table && table->elements() >= large_table;
  }
  bool passes(const ir::Node& node) const {
    return (ops::has_trait(node.op, ops::Trait::half) && !is_lookup(node)) ||
           (node.op == "MatMul" && !graph_.constant(node.inputs[0]) && !graph_.constant(node.inputs[1]));
  }
  /// Operands of a BoxHead that convolutions give.
  static size_t logits_of(const ir::Node& node) { return static_cast<size_t>(2 * node.integer("scales", 0)); }
  /// A convolution of an image reads it as it lies.
  bool is_stem(const ir::Node& node) const {
    const Tensor* weights = graph_.constant(node.inputs[1]);
    return node.text("input_layout", "") == "NCHW" ||
           (weights && weights->dims()[1] < 8 && node.integer("group", 1) == 1);
  }
  bool is_data(const ir::Node& node, size_t input) const {
    // The mask of an attention is f32, and so is the bias of a product.
    return is_f32(node.inputs[input]) && (input == 0 || !first_is_data(node)) &&
           (node.op != "tenon:DotAttention" || input < 3) && (node.op != "MatMul" || input != 2);
  }

  bool is_wide(ir::ValueId id) const { return id != ir::no_value && is_wide_[id]; }
  bool is_square(ir::ValueId id) const {
    const ir::NodeId producer = graph_.value(id).producer;
    if (producer == ir::no_node) return false;
    const ir::Node& node = graph_.node(producer);
    if (node.op == "Mul") return node.inputs[0] == node.inputs[1];
    if (node.op == "Pow") return is_scalar(graph_, node.inputs[1], 2);
    const auto program = ops::program_of(node);
    if (!program) return false;
    const ops::Instruction& last = program->back();
    return (last.id == expr::Id::Mul && last.a.reg >= 0 && last.a.reg == last.b.reg) ||
           (last.id == expr::Id::Pow && last.b.reg < 0 && last.b.number == 2);
  }
  /// A sum of squares, or one of many terms: 16 bits may not reach that far, and a variance is a small difference of
  /// large sums.
  bool is_long_sum(const ir::Node& node) const {
    const ops::Reduction reduction = ops::traits_of(node.op).reduction();
    if (reduction == ops::Reduction::squares) return true;
    if (reduction != ops::Reduction::sum && reduction != ops::Reduction::mean && reduction != ops::Reduction::l1)
      return false;
    if (is_square(node.inputs[0])) return true;
    const ir::Shape *from = shape_of(graph_, node.inputs[0]), *to = shape_of(graph_, node.outputs[0]);
    ir::Dim all(1), left(1);
    for (const ir::Dim& dim : from ? *from : ir::Shape()) all = all * dim;
    for (const ir::Dim& dim : to ? *to : ir::Shape()) left = left * dim;
    const bool known = from && to && all.is_constant() && left.is_constant() && left.value() > 0;
    return reduction != ops::Reduction::mean && (!known || all.value() / left.value() > most_terms);
  }
  /// Whether its result is of another range than what it reads.
  bool rescales(const ir::Node& node) const {
    const auto changes = [](expr::Id id) {
      return id != expr::Id::Add && id != expr::Id::Sub && id != expr::Id::Mul && id != expr::Id::Relu &&
             id != expr::Id::Clip && id != expr::Id::Max && id != expr::Id::Min;
    };
    if (const auto program = ops::program_of(node))
      return std::any_of(program->begin(), program->end(), [&](const auto& line) { return changes(line.id); });
    const auto formula = ops::formula_of(node, [](size_t) { return std::optional<float>(); });
    return is_elementwise(node) && (!formula || changes(formula->id));
  }
  /// What stays f32: long sums, and what is made of them up to the root, the quotient or whatever brings them back.
  void find_wide(const ir::Node& node) {
    bool reads = false;
    for (size_t at = 0; at < node.inputs.size(); ++at) reads |= is_wide(node.inputs[at]);
    const bool follows = reads && (is_elementwise(node) || ops::has_trait(node.op, ops::Trait::moves));
    if (follows ? rescales(node) : !is_long_sum(node)) return;
    for (ir::ValueId out : node.outputs)
      if (is_f32(out)) is_wide_[out] = 1;
  }
  /// Whether it computes in f32 for what it reads or gives.
  bool stays_f32(const ir::Node& node) const {
    const auto wide = [&](ir::ValueId id) { return is_wide(id); };
    return std::any_of(node.outputs.begin(), node.outputs.end(), wide) ||
           ((is_elementwise(node) || ops::has_trait(node.op, ops::Trait::moves)) &&
            std::any_of(node.inputs.begin(), node.inputs.end(), wide));
  }

  /// Which values are better narrow, from the end on.
  void look(const ir::Node& node) {
    if (stays_f32(node)) return;
    bool wanted = false;
    for (ir::ValueId out : node.outputs) wanted |= out != ir::no_value && want_[out];
    if (is_product(node)) {
      for (const size_t at : {size_t{0}, size_t{1}}) want_[node.inputs[at]] = 1;
      if (wanted && node.inputs.size() > 3 && is_f32(node.inputs[3])) want_[node.inputs[3]] = 1;
    } else if (is_anchor(node) || is_weight_only(node)) {
      if (is_weight_only(node) || !is_stem(node)) want_[node.inputs[0]] = 1;
      if (wanted && node.inputs.size() > 3 && is_f32(node.inputs[3])) want_[node.inputs[3]] = 1;
    } else if (node.op == "tenon:BoxHead") {
      for (size_t at = 0; at < logits_of(node); ++at) want_[node.inputs[at]] |= is_f32(node.inputs[at]);
    } else if ((wanted && passes(node)) || node.op == "tenon:DotAttention") {
      for (ir::ValueId out : node.outputs)
        if (is_f32(out)) want_[out] = 1;
      for (size_t at = 0; at < node.inputs.size(); ++at)
        if (is_data(node, at)) want_[node.inputs[at]] = 1;
    }
  }
  void mark(const ir::Node& node) {
    if (stays_f32(node)) return;
    changed_ |= is_product(node) || is_weight_only(node);
    if (!is_anchor(node) && !is_product(node) && !is_weight_only(node) && !passes(node) &&
        !ops::has_trait(node.op, ops::Trait::any_float) && node.op != "tenon:DotAttention")
      return;
    for (ir::ValueId out : node.outputs)
      if (is_f32(out) && want_[out]) is_16_bit_[out] = 1, changed_ = true;
  }

  ir::ValueId cast(ir::ValueId value, int64_t to) {
    const ir::Value& from = graph_.value(value);
    if (from.is_constant()) {
      if (to == f32) return value;
      const Tensor tensor = as_16_bits_tensor(from.constant, type_);
      return graph_.add_constant(from.name + "." + std::string(name(type_)), tensor);
    }
    auto& known = casts_[to == f32 ? 1 : 0];
    const auto found = known.find(value);
    if (found != known.end()) return found->second;
    return known[value] = graph_.apply("Cast", {value}, {{"to", to}}, {},
                                       from.name + "." + std::string(name(static_cast<DType>(to))));
  }
  void give(ir::NodeId id, size_t input, bool as_16_bits) {
    const ir::ValueId value = graph_.node(id).inputs[input];
    if (value == ir::no_value || is_16_bit(value) == as_16_bits) return;
    graph_.set_input(id, input, cast(value, as_16_bits ? code_ : f32));
  }

  void rewrite(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (is_product(node) || is_weight_only(node)) {
      const bool out = is_16_bit(node.outputs[0]), values = is_product(node);
      give(id, 0, true);
      if (values) give(id, 1, true);
      if (graph_.node(id).inputs.size() > 3) give(id, 3, out);
      if (!out) graph_.node(id).attributes["output_dtype"] = f32;
    } else if (is_anchor(node)) {
      const bool stem = is_stem(node), out = is_16_bit(node.outputs[0]);
      const bool in = is_16_bit(node.inputs[0]) || !stem;
      if (!stem) give(id, 0, true);
      if (graph_.node(id).inputs.size() > 3) give(id, 3, out);
      if (in != out) graph_.node(id).attributes["output_dtype"] = out ? code_ : f32;
    } else if (node.op == "tenon:BoxHead") {
      for (size_t at = 0; at < logits_of(graph_.node(id)); ++at) give(id, at, true);
    } else if (ops::has_trait(node.op, ops::Trait::any_float)) {
      const bool out = is_16_bit(node.outputs[0]);
      // Parameters of a normalisation are f32; the data may be either.
      if (!ops::has_trait(node.op, ops::Trait::product))
        for (size_t at = 1; at < graph_.node(id).inputs.size(); ++at) give(id, at, false);
      if (out || is_16_bit(graph_.node(id).inputs[0])) graph_.node(id).attributes["output_dtype"] = out ? code_ : f32;
    } else if (node.op == "QuantizeLinear") {
      // It takes either.
    } else if (!node.outputs.empty() && is_16_bit(node.outputs[0])) {
      for (size_t at = 0; at < graph_.node(id).inputs.size(); ++at)
        if (graph_.node(id).inputs[at] != ir::no_value) give(id, at, is_data(graph_.node(id), at));
    } else {
      for (size_t at = 0; at < graph_.node(id).inputs.size(); ++at) give(id, at, false);
    }
  }

  ir::Graph& graph_;
  DType type_;
  int64_t code_;
  std::vector<char> want_, is_16_bit_, is_wide_;
  std::array<std::map<ir::ValueId, ir::ValueId>, 2> casts_;
  bool changed_ = false;
};

/// [K, N] as [N, K, 1, 1].
Tensor columns_as_rows(const Tensor& weights) {
  const int64_t k = weights.dims()[0], n = weights.dims()[1];
  Tensor result(DType::f32, {n, k, 1, 1});
  for (int64_t row = 0; row < n; ++row)
    for (int64_t at = 0; at < k; ++at) result.data<float>()[row * k + at] = weights.data<float>()[at * n + row];
  return result;
}

/// A product by constant weights as a convolution of 1x1, which has the kernels.
bool product_to_conv(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const bool gemm = node.op == "Gemm";
  if (!gemm && node.op != "MatMul") return false;
  const Tensor* constant_weights = graph.constant(node.inputs[1]);
  const ir::Shape *shape_in = shape_of(graph, node.inputs[0]), *shape_out = shape_of(graph, node.outputs[0]);
  if (!constant_weights || constant_weights->dtype() != DType::f32 || constant_weights->dims().rank() != 2 ||
      !shape_in || !shape_out || shape_in->size() < 2 || (gemm && shape_in->size() != 2))
    return false;
  const bool is_deep = shape_in->back().is_constant() && shape_in->back().value() >= least_depth;
  if (constant_weights->elements() < fewest_weights && !(is_deep && is_large_map(shape_out))) return false;
  if (gemm && (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1)) return false;
  // Copies: values move when others are added.
  const Tensor weights = *constant_weights;
  const ir::Shape from = *shape_in, to = *shape_out;
  const bool transposed = gemm && node.integer("transB", 0);
  const int64_t n = weights.dims()[transposed ? 0 : 1], k = weights.dims()[transposed ? 1 : 0];
  ir::Dim rows(1);
  for (size_t axis = 0; axis + 1 < from.size(); ++axis) rows = rows * from[axis];
  const auto back = reshape_target({rows, ir::Dim(1), ir::Dim(1), ir::Dim(n)}, to);
  if (!back) return false;
  const bool residual = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  if (residual && (!shape_of(graph, node.inputs[3]) || !(*shape_of(graph, node.inputs[3]) == to))) return false;
  ir::ValueId bias = ir::no_value;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) {
    const Tensor* given = graph.constant(node.inputs[2]);
    if (!given || given->elements() != n || given->dims().back() != n) return false;
    bias = graph.add_constant(graph.value(node.inputs[2]).name + ".row", given->reshaped({n}));
  }
  // The same memory where it lies so already.
  const Tensor rows_of_weights = transposed ? weights.reshaped({n, k, 1, 1}) : columns_as_rows(weights);
  const std::vector<std::string> origins = node.origins;
  const std::string name = graph.value(node.outputs[0]).name;
  ir::Attributes attributes = node.attributes;
  for (const char* own : {"transA", "transB", "alpha", "beta"})
    if (gemm) attributes.erase(own);
  attributes["layout"] = std::string("NHWC");
  const ir::ValueId given = node.inputs[0], other = residual ? node.inputs[3] : ir::no_value;
  const auto pixels = [&](ir::ValueId value, int64_t channels, const char* suffix) {
    const ir::ValueId to_sizes = constant(graph, name + suffix + ".pixels", {-1, 1, 1, channels});
    const ir::ValueId result = graph.apply("Reshape", {value, to_sizes}, {}, origins, name + suffix);
    graph.value(result).dtype = DType::f32;
    return result;
  };
  std::vector<ir::ValueId> inputs{pixels(given, k, ".in"), graph.add_constant(name + ".weights", rows_of_weights)};
  if (bias != ir::no_value || residual) inputs.push_back(bias);
  if (residual) inputs.push_back(pixels(other, n, ".other"));
  const ir::ValueId y = graph.apply("Conv", inputs, attributes, origins, name + ".conv");
  graph.value(y).dtype = DType::f32;
  replace(graph, id, graph.apply("Reshape", {y, constant(graph, name + ".rows", *back)}, {}, origins, name));
  return true;
}

bool cast_to_16_bits(ir::Graph& graph, DType type) {
  if (products_to_convolutions(graph)) {
    graph.tidy();
    ops::infer(graph);
  }
  return Caster(graph, type).run();
}

}  // namespace

bool products_to_convolutions(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return product_to_conv(graph, id); });
}
bool cast_to_f16(ir::Graph& graph) { return cast_to_16_bits(graph, DType::f16); }
bool cast_to_bf16(ir::Graph& graph) { return cast_to_16_bits(graph, DType::bf16); }

}  // namespace tenon::passes
