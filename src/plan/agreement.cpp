// SPDX-License-Identifier: Apache-2.0
#include "plan/agreement.h"

#include <tenon/error.h>

#include <algorithm>

#include "ops/inverted_bottleneck.h"
#include "ops/op.h"

namespace tenon::plan {
namespace {

bool is_broadcast(const ir::Node& node, const std::vector<Dims>& sizes) {
  const Dims& out = sizes[static_cast<size_t>(node.outputs[0])];
  for (size_t back = 1; back <= out.rank(); ++back) {
    const int64_t size = out[out.rank() - back];
    bool has = size == 1;
    for (const ir::ValueId id : node.inputs) {
      if (id == ir::no_value) continue;
      const Dims& in = sizes[static_cast<size_t>(id)];
      if (in.rank() > out.rank()) return false;
      if (back > in.rank() || in[in.rank() - back] == 1) continue;
      if (in[in.rank() - back] != size) return false;
      has = true;
    }
    if (!has) return false;
  }
  return true;
}

bool is_concatenation(const ir::Node& node, size_t axis, const std::vector<Dims>& sizes) {
  const Dims& out = sizes[static_cast<size_t>(node.outputs[0])];
  int64_t sum = 0;
  for (const ir::ValueId id : node.inputs) {
    const Dims& in = sizes[static_cast<size_t>(id)];
    if (in.rank() != out.rank()) return false;
    for (size_t at = 0; at < out.rank(); ++at)
      if (at != axis && in[at] != out[at]) return false;
    sum += in[axis];
  }
  return sum == out[axis];
}

bool is_split(const ir::Node& node, size_t axis, const std::vector<int64_t>& parts, const std::vector<Dims>& sizes) {
  const Dims& in = sizes[static_cast<size_t>(node.inputs[0])];
  int64_t sum = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    sum += parts[part];
    if (node.outputs[part] == ir::no_value) continue;
    const Dims& out = sizes[static_cast<size_t>(node.outputs[part])];
    if (out.rank() != in.rank() || out[axis] != parts[part]) return false;
    for (size_t at = 0; at < out.rank(); ++at)
      if (at != axis && in[at] != out[at]) return false;
  }
  return sum == in[axis];
}

/// One of each image and channel, where rows and columns were.
bool is_global(const ir::Node& node, size_t channels, const std::vector<Dims>& sizes) {
  const Dims &in = sizes[static_cast<size_t>(node.inputs[0])], &out = sizes[static_cast<size_t>(node.outputs[0])];
  if (in.rank() != out.rank()) return false;
  for (size_t at = 0; at < out.rank(); ++at)
    if (out[at] != (at == 0 || at == channels ? in[at] : 1)) return false;
  return true;
}

bool is_transposition(const ir::Node& node, const std::vector<int64_t>& perm, const std::vector<Dims>& sizes) {
  const Dims &in = sizes[static_cast<size_t>(node.inputs[0])], &out = sizes[static_cast<size_t>(node.outputs[0])];
  if (in.rank() != perm.size() || out.rank() != perm.size()) return false;
  for (size_t axis = 0; axis < perm.size(); ++axis)
    if (out[axis] != in[static_cast<size_t>(perm[axis])]) return false;
  return true;
}

/// Puts sizes to a value; what was there is used again.
void set_shape(ir::Value& value, const Dims& dims) {
  if (!value.shape) value.shape.emplace();
  value.shape->assign(dims.begin(), dims.end());
}

bool has_shape(const ir::Value& value, const Dims& dims) {
  return value.shape &&
         std::equal(value.shape->begin(), value.shape->end(), dims.begin(), dims.end(),
                    [](const ir::Dim& dim, int64_t size) { return dim.is_constant() && dim.value() == size; });
}

/// Integers of a constant; none where it is another.
std::vector<int64_t> constant_integers(const ir::Graph& graph, ir::ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (!tensor || tensor->dtype() != DType::i64) return {};
  return {tensor->data<int64_t>(), tensor->data<int64_t>() + tensor->elements()};
}

/// A product with a constant matrix, and a constant row where one is added.
bool is_rows_by_matrix(const ir::Graph& graph, const ir::Node& node) {
  if (!ops::has_trait(node.op, ops::Trait::integer_form) || ops::has_trait(node.op, ops::Trait::convolution) ||
      node.integer("transA", 0) != 0 || node.inputs.size() > 4)
    return false;
  const Tensor* matrix = graph.constant(node.inputs[1]);
  if (!matrix || matrix->dims().rank() != 2) return false;
  if (node.inputs.size() < 3 || node.inputs[2] == ir::no_value) return true;
  const Tensor* row = graph.constant(node.inputs[2]);
  return row && (row->dims().rank() < 2 || row->elements() == row->dims().back());
}

bool is_product(const ir::Node& node, const std::vector<Dims>& sizes) {
  const Dims &a = sizes[static_cast<size_t>(node.inputs[0])], &b = sizes[static_cast<size_t>(node.inputs[1])],
             &y = sizes[static_cast<size_t>(node.outputs[0])];
  const bool turned = node.integer("transB", 0) != 0;
  if (a.rank() < 2 || b.rank() != 2 || y.rank() != a.rank()) return false;
  for (size_t axis = 0; axis + 1 < a.rank(); ++axis)
    if (a[axis] != y[axis]) return false;
  if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value && !(sizes[static_cast<size_t>(node.inputs[3])] == y))
    return false;  // the residual
  return a.back() == b[turned ? 1 : 0] && y.back() == b[turned ? 0 : 1];
}

/// Shares or normal forms of the data, whose other operands are broadcast over it.
bool is_normal(const ir::Node& node, const std::vector<Dims>& sizes) {
  const Dims &x = sizes[static_cast<size_t>(node.inputs[0])], &y = sizes[static_cast<size_t>(node.outputs[0])];
  for (size_t at = 1; at < node.inputs.size(); ++at) {
    if (node.inputs[at] == ir::no_value) continue;
    const Dims& other = sizes[static_cast<size_t>(node.inputs[at])];
    if (other.rank() > x.rank()) return false;
    for (size_t back = 1; back <= other.rank(); ++back)
      if (const int64_t size = other[other.rank() - back]; size != 1 && size != x[x.rank() - back]) return false;
  }
  return x == y;
}

/// What the graph was inferred with.
std::vector<Dims> known_sizes(const ir::Graph& graph) {
  std::vector<Dims> sizes(graph.values.size());
  for (size_t id = 0; id < sizes.size(); ++id)
    if (const auto& shape = graph.values[id].shape)
      for (const ir::Dim& dim : *shape) sizes[id].push_back(dim.is_constant() ? dim.value() : 0);
  return sizes;
}

}  // namespace

Agreement::Agreement(const ir::Graph& graph) : graph_(graph) {
  const std::vector<Dims> known = known_sizes(graph);
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    checks_.push_back(check_of(id, known));
}

/// Convolutions of images with constant weights, or a pool; nothing where one of them is another.
std::vector<Agreement::Window> Agreement::windows_of(const ir::Node& node) const {
  std::vector<Window> windows;
  if (ops::has_trait(node.op, ops::Trait::window) && !ops::has_trait(node.op, ops::Trait::product)) {
    const auto kernel = node.integers("kernel_shape", {}), strides = node.integers("strides", {1, 1}),
               pads = node.integers("pads", {0, 0, 0, 0});
    const bool plain = node.outputs.size() == 1 && node.text("layout", "") == "NHWC" && !node.has("dilations") &&
                       node.text("auto_pad", "NOTSET") == "NOTSET" && node.integer("ceil_mode", 0) == 0;
    if (!plain || kernel.size() != 2 || strides.size() != 2 || pads.size() != 4) return {};
    Window window{{kernel[0], kernel[1]}, {strides[0], strides[1]}, {1, 1}, {pads[0] + pads[2], pads[1] + pads[3]}};
    window.residual = ir::no_value;
    return {window};
  }
  for (const ops::Convolution& part : ops::convolutions_of(node)) {
    const Tensor* weights = graph_.constant(node.inputs[part.weights]);
    const std::string pad = part.node.text("auto_pad", "NOTSET");
    if (!weights || weights->dims().rank() != 4 || pad == "VALID" || part.node.text("layout", "") != "NHWC") return {};
    const auto strides = part.node.integers("strides", {1, 1}), dilations = part.node.integers("dilations", {1, 1}),
               pads = part.node.integers("pads", {0, 0, 0, 0});
    if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4) return {};
    Window window{};
    for (size_t at = 0; at < 2; ++at) {
      window.kernel[at] = weights->dims()[2 + at], window.stride[at] = strides[at], window.dilation[at] = dilations[at];
      window.pads[at] = pads[at] + pads[2 + at];
    }
    window.in_channels = weights->dims()[1] * part.node.integer("group", 1), window.out_channels = weights->dims()[0];
    window.same = pad != "NOTSET", window.in_nchw = part.node.text("input_layout", "") == "NCHW";
    window.residual = node.inputs.size() > part.residual ? node.inputs[part.residual] : ir::no_value;
    windows.push_back(window);
  }
  return windows;
}

/// The axis that a node names, from the front.
size_t Agreement::axis_of(const ir::Node& node, int64_t otherwise) const {
  const int64_t axis = node.integer("axis", otherwise);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(graph_.value(node.outputs[0]).shape->size())
                                      : axis);
}

Agreement::Check Agreement::check_of(ir::NodeId id, const std::vector<Dims>& known) const {
  const ir::Node& node = graph_.node(id);
  Check check{.node = id};
  check.windows = windows_of(node);
  if (!check.windows.empty()) {
    check.kind = Kind::windows;
  } else if (node.outputs.size() == 1 && ops::has_trait(node.op, ops::Trait::elementwise)) {
    check.kind = Kind::elementwise;
  } else if (ops::has_trait(node.op, ops::Trait::view)) {
    check.kind = Kind::view;
  } else if (ops::has_trait(node.op, ops::Trait::joins)) {
    check.kind = Kind::concat;
    check.axis = axis_of(node, 0);
  } else if (const auto parts = ops::has_trait(node.op, ops::Trait::splits) && node.inputs.size() > 1
                                    ? constant_integers(graph_, node.inputs[1])
                                    : std::vector<int64_t>{};
             parts.size() == node.outputs.size()) {
    check.kind = Kind::split;
    check.axis = axis_of(node, 0), check.parts = parts;
  } else if (ops::has_trait(node.op, ops::Trait::global) && node.outputs.size() == 1) {
    check.kind = Kind::global;
    check.axis = node.text("layout", "") == "NHWC" ? graph_.value(node.outputs[0]).shape->size() - 1 : 1;
  } else if (ops::has_trait(node.op, ops::Trait::permutes) && node.has("perm")) {
    check.kind = Kind::transpose;
    check.perm = node.integers("perm");
  } else if (is_rows_by_matrix(graph_, node)) {
    check.kind = Kind::product;
  } else if (node.outputs.size() == 1 &&
             (ops::has_trait(node.op, ops::Trait::softmax) || ops::has_trait(node.op, ops::Trait::centred)) &&
             is_normal(node, known)) {
    check.kind = Kind::normal;
  }
  if (check.kind != Kind::inferred) return check;
  std::map<ir::ValueId, ir::ValueId> copies;
  for (const ir::ValueId input : node.inputs) {
    if (input == ir::no_value) {
      check.inputs.push_back(ir::no_value);
      continue;
    }
    const ir::Value& value = graph_.value(input);
    if (const auto known = copies.find(input); known != copies.end()) check.inputs.push_back(known->second);
    else if (value.is_constant()) check.inputs.push_back(check.alone.add_constant("", value.constant));
    else check.inputs.push_back(check.alone.add_value("", value.dtype, value.shape));
    copies[input] = check.inputs.back();
    if (!value.is_constant()) check.alone.inputs.push_back(check.inputs.back());
  }
  std::vector<ir::ValueId> outputs;
  for (const ir::ValueId output : node.outputs)
    outputs.push_back(output == ir::no_value ? ir::no_value : check.alone.add_value(""));
  check.alone.add_node(node.op, check.inputs, outputs, node.attributes, node.origins);
  return check;
}

bool Agreement::windows_hold(const Check& check, const std::vector<Dims>& sizes) const {
  const ir::Node& node = graph_.node(check.node);
  const Dims &in = sizes[static_cast<size_t>(node.inputs[0])], &out = sizes[static_cast<size_t>(node.outputs[0])];
  if (in.rank() != 4) return false;
  Dims x = in;
  for (const Window& window : check.windows) {
    const bool pool = window.out_channels == 0;
    if (!pool && x[window.in_nchw ? 1 : 3] != window.in_channels) return false;
    Dims y{x[0], 0, 0, pool ? x[3] : window.out_channels};
    for (size_t at = 0; at < 2; ++at) {
      const int64_t from = x[at + (window.in_nchw ? 2 : 1)], stride = window.stride[at];
      const int64_t reach = from + window.pads[at] - window.dilation[at] * (window.kernel[at] - 1) - 1;
      if (pool && reach < 0) return false;  // inference refuses it
      y[at + 1] = window.same ? (from + stride - 1) / stride : reach < 0 ? 0 : reach / stride + 1;
    }
    if (window.residual != ir::no_value && !(sizes[static_cast<size_t>(window.residual)] == y)) return false;
    x = y;
  }
  return x == out;
}

bool Agreement::infers(const Check& check, const std::vector<Dims>& sizes, const Decided& decided) const {
  const ir::Node& node = graph_.node(check.node);
  ir::Graph& alone = check.alone;
  const std::lock_guard lock(mutex_);
  for (size_t at = 0; at < node.inputs.size(); ++at) {
    if (check.inputs[at] == ir::no_value) continue;
    ir::Value& value = alone.value(check.inputs[at]);
    if (!value.is_constant()) set_shape(value, sizes[static_cast<size_t>(node.inputs[at])]);
    for (const auto& [id, tensor] : decided)
      if (id == node.inputs[at]) value.constant = tensor;
  }
  for (const ir::ValueId output : alone.node(0).outputs)
    if (output != ir::no_value) alone.value(output).shape.reset(), alone.value(output).content.reset();
  try {
    ops::infer(alone, 0);
  } catch (const Error&) {
    return false;
  }
  for (size_t at = 0; at < node.outputs.size(); ++at)
    if (node.outputs[at] != ir::no_value &&
        !has_shape(alone.value(alone.node(0).outputs[at]), sizes[static_cast<size_t>(node.outputs[at])]))
      return false;
  return true;
}

bool Agreement::holds(const Check& check, const std::vector<Dims>& sizes) const {
  const ir::Node& node = graph_.node(check.node);
  switch (check.kind) {
    case Kind::elementwise: return is_broadcast(node, sizes);
    case Kind::view:
      return sizes[static_cast<size_t>(node.inputs[0])].elements() ==
             sizes[static_cast<size_t>(node.outputs[0])].elements();
    case Kind::windows: return windows_hold(check, sizes);
    case Kind::product: return is_product(node, sizes);
    case Kind::normal: return is_normal(node, sizes);
    case Kind::global: return is_global(node, check.axis, sizes);
    case Kind::split: return is_split(node, check.axis, check.parts, sizes);
    case Kind::concat: return is_concatenation(node, check.axis, sizes);
    case Kind::transpose: return is_transposition(node, check.perm, sizes);
    case Kind::inferred: break;
  }
  return false;
}

bool Agreement::holds(const std::vector<Dims>& sizes, const Decided& decided) const {
  return std::all_of(checks_.begin(), checks_.end(), [&](const Check& check) {
    return check.kind == Kind::inferred ? infers(check, sizes, decided) : holds(check, sizes);
  });
}

}  // namespace tenon::plan
