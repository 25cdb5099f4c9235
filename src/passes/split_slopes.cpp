// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/expression.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Where convolutions of bytes have the scales of their results and residuals; zero points stand behind them.
enum : size_t { residual_at = 3, y_scale = 7, r_scale = 9 };

class Splitter {
 public:
  Splitter(ir::Graph& graph, ir::NodeId id) : graph_(graph), id_(id), node_(graph.node(id)), inputs_(node_.inputs) {
    is_quantised_ = ops::has_trait(node_.op, ops::Trait::quantised);
  }

  /// The sums with what is added before the activation, the activation, what is added behind it, and bytes.
  void run() {
    const ir::Value old = graph_.value(node_.outputs[0]);
    ir::Attributes attributes = node_.attributes;
    const ir::ValueId slopes = constant(graph_, "", slope_sizes(), node_.reals("slopes"));
    const ops::Expression& activation = *ops::find_expression(node_.text("activation", ""));
    attributes.erase("activation"), attributes.erase("slopes");
    const bool quantises = is_quantised_ && has(y_scale), after = node_.text("residual", "") == "after";
    const ir::ValueId added = after ? take_residual(attributes) : ir::no_value;
    if (quantises) inputs_[y_scale] = inputs_[y_scale + 1] = ir::no_value;
    while (inputs_.back() == ir::no_value) inputs_.pop_back();
    ir::ValueId y = apply(node_.op, inputs_, attributes, old.name + ".sums");
    const std::string name = quantises ? old.name + ".real" : old.name;
    const std::vector<std::string> program{activation.word + std::string(" %0 %1"), "add %3 %2"};
    y = after ? apply("tenon:Elementwise", {y, slopes, added}, {{"program", program}}, name)
              : apply(ir::OpId(activation.name), {y, slopes}, {}, name);
    if (quantises) {
      y = apply("QuantizeLinear", {y, node_.inputs[y_scale], zeros_of(y_scale)}, {{"axis", int64_t{-1}}}, old.name);
      graph_.value(y).dtype = old.dtype;
    }
    replace(graph_, id_, y);
  }

 private:
  bool has(size_t at) const { return at < inputs_.size() && inputs_[at] != ir::no_value; }
  Dims slope_sizes() const {
    const auto count = static_cast<int64_t>(node_.reals("slopes").size());
    Dims sizes{count};
    const bool windows = node_.op == "ConvTranspose" || ops::has_trait(node_.op, ops::Trait::convolution);
    const ir::Shape* shape = shape_of(graph_, node_.outputs[0]);
    const size_t rank = windows && node_.text("layout", "") != "NHWC" ? (shape ? shape->size() - 1 : 3) : 1;
    while (sizes.rank() < rank) sizes.push_back(1);
    return sizes;
  }
  /// The tensor of f32 that is added, which the node then has no longer.
  ir::ValueId take_residual(ir::Attributes& attributes) {
    ir::ValueId added = inputs_[residual_at];
    attributes.erase("residual");
    inputs_[residual_at] = ir::no_value;
    if (!is_quantised_) return added;
    added = apply("DequantizeLinear", {added, node_.inputs[r_scale], zeros_of(r_scale)}, {{"axis", int64_t{-1}}},
                  graph_.value(added).name + ".real");
    inputs_[r_scale] = inputs_[r_scale + 1] = ir::no_value;
    return added;
  }
  /// The zero point behind scales, one for each of these.
  ir::ValueId zeros_of(size_t scales) {
    const ir::ValueId zero = node_.inputs[scales + 1];
    const Tensor *list = graph_.constant(node_.inputs[scales]), *one = graph_.constant(zero);
    if (!list || !one || list->elements() == one->elements()) return zero;
    Tensor zeros(one->dtype(), list->dims());
    std::fill_n(zeros.data<uint8_t>(), zeros.elements(), *one->data<uint8_t>());
    return graph_.add_constant("", zeros);
  }
  ir::ValueId apply(const ir::OpId& op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes,
                    const std::string& name) {
    const ir::ValueId result = graph_.apply(op, inputs, attributes, node_.origins, name);
    graph_.value(result).dtype = DType::f32;
    graph_.value(result).shape = graph_.value(node_.outputs[0]).shape;
    return result;
  }

  ir::Graph& graph_;
  ir::NodeId id_;
  const ir::Node node_;
  std::vector<ir::ValueId> inputs_;
  bool is_quantised_;
};

}  // namespace

bool split_slopes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    if (!node.has("slopes") || !ops::has_trait(node.op, ops::Trait::product)) return false;
    Splitter(graph, id).run();
    return true;
  });
}

}  // namespace tenon::passes
