// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool is_window(const std::string& op) {
  return op == "Conv" || op == "ConvTranspose" || op == "MaxPool" || op == "AveragePool" || op == "GlobalAveragePool" ||
         op == "GlobalMaxPool";
}

/// Rewrites a graph of [N, C, L] windows over [N, C, 1, L]. Values are lifted on first use and kept.
class Lifter {
 public:
  explicit Lifter(ir::Graph& graph) : graph_(graph) {}

  bool visit(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.outputs.size() != 1 || rank_of(graph_, node.outputs[0]) != 3) return false;
    if (is_one_grid(node)) return any_lifted(node) && grid(id, node);
    if (graph_.value(node.outputs[0]).dtype != DType::f32) return false;
    // Of an input that a run is the first to know the result has told the axes.
    if (is_window(node.op)) return rank_of(graph_, node.inputs[0]).value_or(3) == 3 && window(id, node);
    if (node.op == "Concat") return concat(id, node);
    if (node.op == "Resize") return resize(id, node);
    return is_elementwise(node) && elementwise(id, node);
  }

 private:
  ir::ValueId lift(ir::ValueId id) {
    const auto found = lifted_.find(id);
    if (found != lifted_.end()) return found->second;
    const std::string name = graph_.value(id).name;
    ir::ValueId result;
    if (const Tensor* tensor = graph_.constant(id)) {
      if (tensor->dims().rank() < 2) return id;
      Dims dims = tensor->dims();
      dims.insert(dims.rank() - 1, 1);
      result = graph_.add_constant(name, tensor->reshaped(dims));
    } else if (const auto stored = stored_weights(id)) {
      result = *stored;
    } else {
      result = graph_.apply("Unsqueeze", {id, constant(graph_, name + ".axes", {2})}, {}, {}, name);
    }
    return lifted_[id] = result;
  }

  /// Weights that a DequantizeLinear makes of constants, their scales along an axis ahead of the window.
  std::optional<ir::ValueId> stored_weights(ir::ValueId id) {
    const ir::Node* node = made_by(graph_, id, "DequantizeLinear");
    const Tensor* bytes = node ? graph_.constant(node->inputs[0]) : nullptr;
    const Tensor* scales = node ? graph_.constant(node->inputs[1]) : nullptr;
    if (!bytes || !scales || bytes->dims().rank() != 3 || node->integer("block_size", 0)) return std::nullopt;
    const int64_t given = node->integer("axis", 1), axis = given < 0 ? given + 3 : given;
    if (axis > 1 && scales->elements() > 1) return std::nullopt;
    std::vector<ir::ValueId> inputs = node->inputs;
    ir::Attributes attributes = node->attributes;
    if (scales->elements() > 1) attributes["axis"] = axis;
    else attributes.erase("axis");
    const std::vector<std::string> origins = node->origins;
    const DType type = graph_.value(id).dtype;
    inputs[0] = lift(inputs[0]);
    const ir::ValueId result = graph_.apply("DequantizeLinear", inputs, attributes, origins, graph_.value(id).name);
    graph_.value(result).dtype = type;
    return result;
  }

  /// One that stores numbers on a grid for all, or reads them from one.
  bool is_one_grid(const ir::Node& node) const {
    if (node.inputs.size() < 2 ||
        (!ops::has_trait(node.op, ops::Trait::quantises) && !ops::has_trait(node.op, ops::Trait::dequantises)))
      return false;
    const Tensor* scale = graph_.constant(node.inputs[1]);
    return scale && scale->elements() == 1 && !node.integer("block_size", 0);
  }
  bool grid(ir::NodeId id, const ir::Node& node) {
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[0] = lift(inputs[0]);
    ir::Attributes attributes = node.attributes;
    attributes.erase("axis");
    give(id, node, graph_.apply(node.op, inputs, attributes, node.origins, graph_.value(node.outputs[0]).name));
    return true;
  }

  void give(ir::NodeId id, const ir::Node& node, ir::ValueId result) {
    const ir::ValueId out = node.outputs[0];
    const std::string name = graph_.value(out).name;
    const ir::ValueId flat =
        graph_.apply("Squeeze", {result, constant(graph_, name + ".axes", {2})}, {}, node.origins, name);
    ir::Value& value = graph_.value(flat);
    value.shape = graph_.value(out).shape;
    value.dtype = graph_.value(out).dtype;
    replace(graph_, id, flat);
    lifted_[flat] = result;
  }

  bool window(ir::NodeId id, const ir::Node& node) {
    ir::Attributes attributes = node.attributes;
    for (const char* name : {"kernel_shape", "strides", "dilations", "output_shape"})
      if (node.has(name)) {
        auto values = node.integers(name);
        if (values.size() != 1) return false;
        values.insert(values.begin(), 1);
        attributes[name] = values;
      }
    if (node.has("output_padding"))
      attributes["output_padding"] = std::vector<int64_t>{0, node.integers("output_padding")[0]};
    if (node.has("pads")) {
      const auto pads = node.integers("pads");
      if (pads.size() != 2) return false;
      attributes["pads"] = std::vector<int64_t>{0, pads[0], 0, pads[1]};
    }
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[0] = lift(inputs[0]);
    if (inputs.size() > 1 && node.op.str().find("Conv") != std::string::npos) inputs[1] = lift(inputs[1]);
    if (inputs.size() > 3) return false;
    give(id, node, graph_.apply(node.op, inputs, attributes, node.origins, graph_.value(node.outputs[0]).name));
    return true;
  }

  bool any_lifted(const ir::Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ir::ValueId id) { return lifted_.count(id) && !graph_.value(id).is_constant(); });
  }

  bool concat(ir::NodeId id, const ir::Node& node) {
    const auto axis = axis_of(node.integer("axis", 0), 3);
    if (!axis || !any_lifted(node)) return false;
    return rebuilt(id, node, {{"axis", static_cast<int64_t>(*axis == 2 ? 3 : *axis)}});
  }

  /// One that windows read, or that reads what is lifted: sizes and scales are constants, and there is one more of
  /// each.
  bool resize(ir::NodeId id, const ir::Node& node) {
    const std::vector<ir::NodeId>& users = graph_.value(node.outputs[0]).users;
    const bool wanted = any_lifted(node) || std::any_of(users.begin(), users.end(), [&](ir::NodeId user) {
                          return is_window(graph_.node(user).op);
                        });
    const auto given = [&](size_t at) { return node.inputs.size() > at && node.inputs[at] != ir::no_value; };
    if (!wanted || node.has("axes") || given(1) || rank_of(graph_, node.inputs[0]) != 3u ||
        node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" ||
        node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
      return false;
    std::vector<ir::ValueId> inputs{lift(node.inputs[0]), ir::no_value};
    const std::string name = graph_.value(node.outputs[0]).name;
    if (given(2)) {
      const Tensor* scales = graph_.constant(node.inputs[2]);
      if (!scales || scales->dtype() != DType::f32 || scales->elements() != 3 || given(3)) return false;
      const float* by = scales->data<float>();
      inputs.push_back(constant(graph_, name + ".scales", Dims{4}, std::vector<float>{by[0], by[1], 1.f, by[2]}));
    } else {
      auto sizes = given(3) ? integers(graph_, node.inputs[3]) : std::nullopt;
      if (!sizes || sizes->size() != 3) return false;
      sizes->insert(sizes->begin() + 2, 1);
      inputs.push_back(ir::no_value);
      inputs.push_back(constant(graph_, name + ".sizes", *sizes));
    }
    give(id, node, graph_.apply("Resize", inputs, node.attributes, node.origins, name));
    return true;
  }

  bool elementwise(ir::NodeId id, const ir::Node& node) {
    if (!any_lifted(node)) return false;
    for (ir::ValueId input : node.inputs) {
      if (input == ir::no_value) continue;
      const auto rank = rank_of(graph_, input);
      if (!rank || (*rank != 3 && !graph_.value(input).is_constant())) return false;
    }
    return rebuilt(id, node, node.attributes);
  }

  bool rebuilt(ir::NodeId id, const ir::Node& node, ir::Attributes attributes) {
    std::vector<ir::ValueId> inputs;
    for (ir::ValueId input : node.inputs) inputs.push_back(input == ir::no_value ? input : lift(input));
    give(id, node,
         graph_.apply(node.op, inputs, std::move(attributes), node.origins, graph_.value(node.outputs[0]).name));
    return true;
  }

  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> lifted_;  // [N, C, L] to [N, C, 1, L]
};

}  // namespace

bool lift_1d(ir::Graph& graph) {
  Lifter lifter(graph);
  return each_node(graph, [&](ir::NodeId id) { return lifter.visit(id); });
}

}  // namespace tenon::passes
