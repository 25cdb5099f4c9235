// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>

#include "passes/layout.h"

namespace tenon::passes {
namespace {

using Rule = bool (*)(Layout&, ir::NodeId);
const Perm channels_last{0, 2, 3, 1};

bool all(const std::vector<int64_t>& items, int64_t number) {
  return std::all_of(items.begin(), items.end(), [&](int64_t item) { return item == number; });
}

/// The order a node's one data input is known in, other than its original; empty where there is none.
Perm moved(Layout& layout, ir::ValueId id) {
  const Perm perm = rank_of(layout.graph, id) ? layout.choose({id}) : Perm{};
  return is_identity(perm) ? Perm{} : perm;
}

bool is_pointwise(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape* weights = shape_of(graph, node.inputs[1]);
  const std::string padding = node.text("auto_pad", "NOTSET");
  return node.op == "Conv" && weights && (*weights)[2] == ir::Dim(1) && (*weights)[3] == ir::Dim(1) &&
         all(node.integers("strides"), 1) && all(node.integers("pads"), 0) && node.integer("group", 1) == 1 &&
         (padding == "NOTSET" || padding == "VALID");
}

/// Planes under a window each that only a run knows.
bool is_correlation(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape* weights = shape_of(graph, node.inputs[1]);
  return node.op == "Conv" && !graph.constant(node.inputs[1]) && weights && (*weights)[1] == ir::Dim(1) &&
         node.integer("group", 1) > 1 && all(node.integers("pads"), 0) && node.text("auto_pad", "NOTSET") == "NOTSET";
}

bool convolution(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const ir::ValueId from = node.inputs[0];
  if (rank_of(graph, from) != 4u || rank_of(graph, node.inputs[1]) != 4u || node.has("layout") ||
      is_correlation(graph, node))
    return false;
  Perm perm = channels_last;
  // A product per pixel does not see the order of the pixels.
  if (is_pointwise(graph, node) && !layout.has(from, perm))
    for (const Layout::Form& form : layout.forms(from))
      if (form.perm[0] == 0 && form.perm[3] == 1) perm = form.perm;
  ir::Attributes attributes = node.attributes;
  attributes["layout"] = std::string("NHWC");
  std::vector<ir::ValueId> inputs = node.inputs;
  const ir::Dim& channels = (*shape_of(graph, from))[1];
  // An image of a few channels is read as it lies.
  const bool stem = node.op == "Conv" && node.integer("group", 1) == 1 && channels.is_constant() &&
                    channels.value() <= 4 && !layout.has(from, perm) && layout.has(from, {0, 1, 2, 3});
  if (stem) attributes["input_layout"] = std::string("NCHW");
  inputs[0] = layout.in_order(from, stem ? Perm{0, 1, 2, 3} : perm);
  for (size_t at = 1; at < inputs.size(); ++at) {  // as they were: weights, bias, zero points
    Perm own(inputs[at] == ir::no_value ? 0 : rank_of(graph, inputs[at]).value_or(0));
    std::iota(own.begin(), own.end(), 0);
    inputs[at] = layout.in_order(inputs[at], own);
  }
  layout.rewrite(id, inputs, attributes, perm);
  return true;
}

bool pool(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  if (rank_of(layout.graph, node.inputs[0]) != 4u || moved(layout, node.inputs[0]).empty()) return false;
  if (node.outputs.size() > 1 && node.outputs[1] != ir::no_value) {
    const ir::ValueId second = node.outputs[1];
    if (layout.graph.value(second).users.empty() && !layout.graph.is_output(second)) {
      layout.graph.node(id).outputs.resize(1);
      layout.graph.value(second).producer = ir::no_node;
    }
  }
  ir::Attributes attributes = node.attributes;
  attributes["layout"] = std::string("NHWC");
  layout.rewrite(id, {layout.in_order(node.inputs[0], channels_last)}, attributes, channels_last);
  return true;
}

/// Channels after any number of spatial axes; scale and bias, a list each, have no order.
bool normalisation(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const size_t rank = moved(layout, node.inputs[0]).size();
  if (rank < 3) return false;
  Perm perm(rank, 1);
  for (size_t at = 0; at + 1 < rank; ++at) perm[at] = static_cast<int64_t>(at == 0 ? 0 : at + 1);
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = layout.in_order(inputs[0], perm);
  for (size_t at : {size_t{1}, size_t{2}}) inputs[at] = layout.in_order(inputs[at], {0});
  ir::Attributes attributes = node.attributes;
  attributes["layout"] = std::string("NHWC");
  layout.rewrite(id, inputs, attributes, perm);
  return true;
}

bool elementwise(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const auto rank = rank_of(graph, node.outputs[0]);
  std::vector<ir::ValueId> whole;
  for (ir::ValueId input : node.inputs) {
    if (input == ir::no_value) continue;
    const auto own = rank_of(graph, input);
    if (!own || !rank || *own > *rank) return false;
    if (*own == *rank && !graph.constant(input)) whole.push_back(input);
  }
  const Perm perm = whole.empty() ? Perm{} : layout.choose(whole);
  if (perm.empty() || is_identity(perm)) return false;
  // Of more axes than images have, operands that stretch each other are moved themselves, and not what they make.
  const auto narrower = [&](ir::ValueId input) {
    const auto own = sizes_of(graph, input), all = sizes_of(graph, node.outputs[0]);
    return own && all && *own != *all;
  };
  if (*rank > 4 && std::all_of(whole.begin(), whole.end(), narrower)) return false;
  std::vector<ir::ValueId> inputs;
  for (ir::ValueId input : node.inputs) inputs.push_back(layout.broadcast_in_order(input, perm));
  layout.rewrite(id, inputs, node.attributes, perm);
  return true;
}

/// Ops on one input with an attribute that names an axis.
bool along_axis(Layout& layout, ir::NodeId id, int64_t otherwise, bool drops_axis) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  const auto axis = axis_of(node.integer("axis", otherwise), perm.size());
  if (perm.empty() || !axis) return false;
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = layout.in_order(inputs[0], perm);
  ir::Attributes attributes = node.attributes;
  attributes["axis"] = inverse(perm)[*axis];
  Perm result;
  for (int64_t place : perm)
    if (!drops_axis || place != static_cast<int64_t>(*axis))
      result.push_back(drops_axis && place > static_cast<int64_t>(*axis) ? place - 1 : place);
  layout.rewrite(id, inputs, attributes, result);
  return true;
}

/// A product by one matrix does not see the order of the rows.
bool product(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  const Tensor* weights = layout.graph.constant(node.inputs[1]);
  if (perm.empty() || perm.back() + 1 != static_cast<int64_t>(perm.size()) || !weights || weights->dims().rank() != 2)
    return false;
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = layout.in_order(inputs[0], perm);
  layout.rewrite(id, inputs, node.attributes, perm);
  return true;
}

bool softmax(Layout& layout, ir::NodeId id) { return along_axis(layout, id, -1, false); }
bool split(Layout& layout, ir::NodeId id) { return along_axis(layout, id, 0, false); }
bool arg(Layout& layout, ir::NodeId id) {
  return along_axis(layout, id, 0, layout.graph.node(id).integer("keepdims", 1) == 0);
}

bool gather(Layout& layout, ir::NodeId id) {
  const auto indices = rank_of(layout.graph, layout.graph.node(id).inputs[1]);
  if (!indices || *indices > 1) return false;
  if (*indices == 1 && layout.forms(layout.graph.node(id).inputs[1]).front().value != layout.graph.node(id).inputs[1])
    return false;
  return along_axis(layout, id, 0, *indices == 0);
}

/// Per-tensor scales need nothing; per-channel ones name their axis.
bool quantisation(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  if (node.integer("block_size", 0) != 0) return false;
  const auto scales = rank_of(layout.graph, node.inputs[1]);
  return scales && *scales <= 1 && rank_of(layout.graph, node.inputs[0]).value_or(0) > 1 &&
         along_axis(layout, id, 1, false);
}

/// Bytes in any order; their scale and zero point are numbers.
bool dynamic_quantisation(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  if (perm.empty()) return false;
  layout.rewrite(id, {layout.in_order(node.inputs[0], perm)}, node.attributes, perm);
  for (size_t at = 1; at < node.outputs.size(); ++at)
    if (node.outputs[at] != ir::no_value) layout.forms(node.outputs[at]).front().perm.clear();
  return true;
}

bool concat(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = layout.choose(node.inputs);
  if (perm.empty() || is_identity(perm)) return false;
  const auto axis = axis_of(node.integer("axis", 0), perm.size());
  if (!axis) return false;
  std::vector<ir::ValueId> inputs;
  for (ir::ValueId input : node.inputs) inputs.push_back(layout.in_order(input, perm));
  ir::Attributes attributes = node.attributes;
  attributes["axis"] = inverse(perm)[*axis];
  layout.rewrite(id, inputs, attributes, perm);
  return true;
}

/// Constant axes, or all of the first `count`, as axes of the permuted operand.
std::optional<std::vector<int64_t>> moved_axes(const ir::Graph& graph, ir::ValueId axes, std::optional<size_t> count,
                                               const Perm& perm) {
  std::vector<int64_t> list;
  if (axes != ir::no_value) {
    const auto known = integers(graph, axes);
    if (!known) return std::nullopt;
    list = *known;
  } else {
    if (!count) return std::nullopt;
    for (size_t at = 0; at < *count; ++at) list.push_back(static_cast<int64_t>(at));
  }
  const Perm places = inverse(perm);
  for (int64_t& item : list) {
    const auto axis = axis_of(item, perm.size());
    if (!axis) return std::nullopt;
    item = places[*axis];
  }
  return list;
}

std::optional<size_t> length(const ir::Graph& graph, ir::ValueId id) {
  const ir::Shape* shape = shape_of(graph, id);
  if (!shape || shape->size() != 1 || !(*shape)[0].is_constant()) return std::nullopt;
  return static_cast<size_t>((*shape)[0].value());
}

/// Slice and Pad: their axes input, made explicit.
bool with_axes(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  if (perm.empty()) return false;
  auto count = length(graph, node.inputs[1]);
  if (node.op == "Pad" && count) count = *count / 2;
  const ir::ValueId given = node.inputs.size() > 3 ? node.inputs[3] : ir::no_value;
  const auto axes = moved_axes(graph, given, count, perm);
  if (!axes) return false;
  std::vector<ir::ValueId> inputs = node.inputs;
  if (inputs.size() < 4) inputs.resize(4, ir::no_value);
  inputs[0] = layout.in_order(inputs[0], perm);
  inputs[3] = constant(graph, graph.value(node.outputs[0]).name + ".axes", *axes);
  layout.rewrite(id, inputs, node.attributes, perm);
  return true;
}

bool reduce(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  if (perm.empty() || node.integer("noop_with_empty_axes", 0) != 0) return false;
  const ir::ValueId given = node.inputs.size() > 1 ? node.inputs[1] : ir::no_value;
  const auto axes = moved_axes(graph, given, perm.size(), perm);
  if (!axes || axes->empty()) return false;
  const auto is_reduced = [&](int64_t place) { return std::find(axes->begin(), axes->end(), place) != axes->end(); };
  Perm result;
  if (node.integer("keepdims", 1) != 0) {
    result = perm;
  } else {
    std::vector<bool> gone(perm.size());
    for (int64_t place : *axes) gone[perm[place]] = true;
    for (size_t place = 0; place < perm.size(); ++place)
      if (!is_reduced(static_cast<int64_t>(place)))
        result.push_back(perm[place] - std::count(gone.begin(), gone.begin() + perm[place], true));
  }
  const ir::ValueId list = constant(graph, graph.value(node.outputs[0]).name + ".axes", *axes);
  layout.rewrite(id, {layout.in_order(node.inputs[0], perm), list}, node.attributes, result);
  return true;
}

/// A list with one item per axis, in the new order; no_value for an absent or empty one.
std::optional<ir::ValueId> moved_list(Layout& layout, ir::ValueId id, const Perm& perm, bool twice = false) {
  ir::Graph& graph = layout.graph;
  if (id == ir::no_value) return id;
  const auto count = length(graph, id);
  if (count == 0u) return ir::no_value;
  std::vector<int64_t> places = perm;
  if (twice)
    for (int64_t place : perm) places.push_back(place + static_cast<int64_t>(perm.size()));
  if (!count || *count != places.size()) return std::nullopt;
  const ir::ValueId index = constant(graph, graph.value(id).name + ".order", places);
  const ir::ValueId list = layout.in_order(id, {0});
  return graph.apply("Gather", {list, index}, {{"axis", int64_t{0}}}, {}, graph.value(id).name);
}

bool resize(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  if (perm.empty()) return false;
  std::vector<ir::ValueId> inputs = node.inputs;
  ir::Attributes attributes = node.attributes;
  if (node.has("axes")) {
    std::vector<int64_t> axes = node.integers("axes");
    for (int64_t& item : axes) {
      const auto axis = axis_of(item, perm.size());
      if (!axis) return false;
      item = inverse(perm)[*axis];
    }
    attributes["axes"] = axes;
  } else {
    for (size_t at = 1; at < inputs.size(); ++at) {
      const auto list = moved_list(layout, inputs[at], perm, at == 1);
      if (!list) return false;
      inputs[at] = *list;
    }
  }
  inputs[0] = layout.in_order(inputs[0], perm);
  layout.rewrite(id, inputs, attributes, perm);
  return true;
}

/// Expand and Tile: a list with one item per axis.
bool repeat(Layout& layout, ir::NodeId id) {
  const ir::Node node = layout.graph.node(id);
  const Perm perm = moved(layout, node.inputs[0]);
  if (perm.empty()) return false;
  const auto list = moved_list(layout, node.inputs[1], perm);
  if (!list || *list == ir::no_value) return false;
  layout.rewrite(id, {layout.in_order(node.inputs[0], perm), *list}, node.attributes, perm);
  return true;
}

/// Costs nothing: the same elements under another name of the order.
bool transpose(Layout& layout, ir::NodeId id) {
  ir::Graph& graph = layout.graph;
  const ir::Node node = graph.node(id);
  const auto rank = rank_of(graph, node.inputs[0]);
  if (!rank || graph.constant(node.inputs[0])) return false;
  Perm perm = node.integers("perm");
  if (perm.empty())
    for (size_t at = *rank; at-- > 0;) perm.push_back(static_cast<int64_t>(at));
  if (perm.size() != *rank) return false;
  std::vector<Layout::Form> forms = layout.forms(node.inputs[0]);
  for (Layout::Form& form : forms) form.perm = compose(inverse(perm), form.perm);
  layout.forms(node.outputs[0]) = forms;
  graph.remove(id);
  return true;
}

}  // namespace

bool carry(Layout& layout, ir::NodeId id) {
  static const std::map<std::string, Rule> rules{{"Conv", convolution},
                                                 {"ConvTranspose", convolution},
                                                 {"ConvInteger", convolution},
                                                 {"MaxPool", pool},
                                                 {"AveragePool", pool},
                                                 {"GlobalAveragePool", pool},
                                                 {"GlobalMaxPool", pool},
                                                 {"LRN", pool},
                                                 {"DepthToSpace", pool},
                                                 {"SpaceToDepth", pool},
                                                 {"InstanceNormalization", normalisation},
                                                 {"GroupNormalization", normalisation},
                                                 {"Softmax", softmax},
                                                 {"LogSoftmax", softmax},
                                                 {"Hardmax", softmax},
                                                 {"LpNormalization", softmax},
                                                 {"ArgMax", arg},
                                                 {"ArgMin", arg},
                                                 {"Split", split},
                                                 {"Concat", concat},
                                                 {"Gather", gather},
                                                 {"Slice", with_axes},
                                                 {"Pad", with_axes},
                                                 {"Resize", resize},
                                                 {"Expand", repeat},
                                                 {"Tile", repeat},
                                                 {"Transpose", transpose},
                                                 {"Reshape", carry_reshape},
                                                 {"MatMul", product},
                                                 {"QuantizeLinear", quantisation},
                                                 {"DequantizeLinear", quantisation},
                                                 {"DynamicQuantizeLinear", dynamic_quantisation},
                                                 {"ReduceMean", reduce},
                                                 {"ReduceSum", reduce},
                                                 {"ReduceMax", reduce},
                                                 {"ReduceMin", reduce},
                                                 {"ReduceProd", reduce},
                                                 {"ReduceL1", reduce},
                                                 {"ReduceL2", reduce},
                                                 {"ReduceSumSquare", reduce},
                                                 {"ReduceLogSum", reduce},
                                                 {"ReduceLogSumExp", reduce}};
  const ir::Node& node = layout.graph.node(id);
  for (ir::ValueId output : node.outputs)
    if (output != ir::no_value && !shape_of(layout.graph, output)) return false;
  if (!node.inputs.empty() && node.inputs[0] != ir::no_value && !shape_of(layout.graph, node.inputs[0])) return false;
  const auto rule = rules.find(node.op);
  if (rule != rules.end()) return rule->second(layout, id);
  return is_elementwise(node) && elementwise(layout, id);
}

}  // namespace tenon::passes
