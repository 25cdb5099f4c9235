// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::run_weights {
namespace {

constexpr int64_t most_taps = 64;                    // of which each is a slice; of more, each along an axis
constexpr int64_t most_along = 128;                  // of those
constexpr int64_t most_elements = int64_t{1} << 26;  // of all windows side by side
constexpr int64_t most_joined = int64_t{1} << 21;    // of windows of many taps: above, copies take what products save

/// Whether inputs have a part in a value, so that no pass and no kernel will know it before a run.
bool is_of_a_run(const ir::Graph& graph, ir::ValueId value) {
  std::vector<ir::ValueId> open{value};
  std::set<ir::ValueId> seen;
  while (!open.empty()) {
    const ir::ValueId next = open.back();
    open.pop_back();
    if (next == ir::no_value || graph.constant(next) || !seen.insert(next).second) continue;
    const ir::Node* made = graph.producer(next);
    if (!made || made->inputs.empty()) return true;
    open.insert(open.end(), made->inputs.begin(), made->inputs.end());
  }
  return false;
}

/// Sizes of a convolution over any number of axes; nothing where they are not all known.
struct Sizes {
  int64_t batch, channels, outputs, groups, taps = 1, places = 1;
  std::vector<int64_t> window, result, strides, dilations, pads;
};

bool constant_from(const ir::Shape& shape, size_t first) {
  return std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(),
                     [](const ir::Dim& size) { return size.is_constant(); });
}

std::optional<Sizes> sizes_of(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape *x = shape_of(graph, node.inputs[0]), *w = shape_of(graph, node.inputs[1]),
                  *y = shape_of(graph, node.outputs[0]);
  if (!x || !w || !y || x->size() < 3 || w->size() != x->size() || !constant_from(*x, 1) || !constant_from(*w, 0) ||
      !constant_from(*y, 1) || node.text("auto_pad", "NOTSET") != "NOTSET")
    return std::nullopt;
  const size_t axes = x->size() - 2;
  Sizes sizes{(*x)[0].is_constant() ? (*x)[0].value() : -1, (*x)[1].value(), (*w)[0].value(), node.integer("group", 1)};
  sizes.strides = node.integers("strides", std::vector<int64_t>(axes, 1));
  sizes.dilations = node.integers("dilations", std::vector<int64_t>(axes, 1));
  sizes.pads = node.integers("pads", std::vector<int64_t>(2 * axes, 0));
  if (std::any_of(sizes.pads.begin(), sizes.pads.end(), [](int64_t pad) { return pad < 0; })) return std::nullopt;
  for (size_t axis = 2; axis < x->size(); ++axis) {
    sizes.window.push_back((*w)[axis].value());
    sizes.result.push_back((*y)[axis].value());
    sizes.taps *= sizes.window.back();
    sizes.places *= sizes.result.back();
    if (sizes.window.back() > most_along || sizes.taps > most_elements || sizes.places > most_elements)
      return std::nullopt;
  }
  const int64_t all = std::max<int64_t>(sizes.batch, 1) * sizes.channels;
  if (all <= 0 || sizes.places <= 0 || sizes.groups <= 0 || sizes.taps <= 0 || sizes.outputs <= 0 ||
      all > (sizes.taps > most_taps ? most_joined : most_elements) / sizes.taps / sizes.places)
    return std::nullopt;
  return sizes;
}

class Lowering {
 public:
  Lowering(ir::Graph& graph, const ir::Node& node, const Sizes& sizes)
      : graph_(graph), node_(node), sizes_(sizes), name_(graph.value(node.outputs[0]).name) {}

  ir::ValueId result() {
    ir::ValueId x = node_.inputs[0];
    if (std::any_of(sizes_.pads.begin(), sizes_.pads.end(), [](int64_t pad) { return pad > 0; })) x = padded(x);
    ir::ValueId value = is_of_pixels() ? of_pixels(x) : of_groups(x);
    if (node_.inputs.size() > 2 && node_.inputs[2] != ir::no_value) {
      std::vector<int64_t> of_bias(axes() + 1, 1);
      of_bias[0] = sizes_.outputs;
      value = apply("Add", {value, reshaped(node_.inputs[2], of_bias)});
    }
    return value;
  }

 private:
  size_t axes() const { return sizes_.window.size(); }
  /// Where pixels hold some channels, so that copying them side by side takes few steps.
  bool is_of_pixels() const {
    constexpr int64_t least_channels = 8;
    return (sizes_.groups == 1 || sizes_.batch == 1) && sizes_.channels / sizes_.groups >= least_channels;
  }
  ir::ValueId apply(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return graph_.apply(op, std::move(inputs), std::move(attributes), node_.origins, name_);
  }
  ir::ValueId numbers(const std::vector<int64_t>& list) { return constant(graph_, name_ + ".sizes", list); }
  ir::ValueId reshaped(ir::ValueId value, const std::vector<int64_t>& to) {
    return apply("Reshape", {value, numbers(to)});
  }

  ir::ValueId padded(ir::ValueId x) {
    std::vector<int64_t> pads(2 * axes() + 4, 0);
    for (size_t axis = 0; axis < axes(); ++axis)
      pads[axis + 2] = sizes_.pads[axis], pads[axes() + axis + 4] = sizes_.pads[axes() + axis];
    return apply("Pad", {x, numbers(pads)}, {{"mode", "constant"}});
  }

  /// What each tap of the window sees, of an image whose axes of places begin at `first`.
  std::vector<ir::ValueId> seen(ir::ValueId x, int64_t first) {
    std::vector<int64_t> which(axes());
    for (size_t axis = 0; axis < axes(); ++axis) which[axis] = static_cast<int64_t>(axis) + first;
    std::vector<ir::ValueId> result;
    for (int64_t tap = 0; tap < sizes_.taps; ++tap) {
      std::vector<int64_t> begin(axes()), end(axes());
      int64_t rest = tap;
      for (size_t axis = axes(); axis-- > 0;) {
        begin[axis] = rest % sizes_.window[axis] * sizes_.dilations[axis];
        end[axis] = begin[axis] + (sizes_.result[axis] - 1) * sizes_.strides[axis] + 1;
        rest /= sizes_.window[axis];
      }
      result.push_back(apply("Slice", {x, numbers(begin), numbers(end), numbers(which), numbers(sizes_.strides)}));
    }
    return result;
  }

  /// The parts of a window of many taps joined axis by axis, the last one first: along the axis of channels, which lies
  /// last, or as axes of their own before those of places.
  ir::ValueId seen_by_axes(ir::ValueId x, int64_t first, bool last) {
    for (size_t axis = axes(); axis-- > 0;) {
      std::vector<ir::ValueId> parts;
      const int64_t at = first + static_cast<int64_t>(axis);
      for (int64_t tap = 0; tap < sizes_.window[axis]; ++tap) {
        const int64_t begin = tap * sizes_.dilations[axis],
                      end = begin + (sizes_.result[axis] - 1) * sizes_.strides[axis] + 1;
        parts.push_back(
            apply("Slice", {x, numbers({begin}), numbers({end}), numbers({at}), numbers({sizes_.strides[axis]})}));
        if (!last) parts.back() = apply("Unsqueeze", {parts.back(), numbers({2})});
      }
      const int64_t joined = last ? static_cast<int64_t>(axes()) + 1 : 2;
      x = parts.size() == 1 ? parts[0] : apply("Concat", parts, {{"axis", joined}});
      if (!last) ++first;
    }
    return x;
  }

  /// Windows as [batch or groups, places, taps and channels] times the weights, which are fewer than they are and so
  /// take less to be packed. Groups, of one image, are as images.
  ir::ValueId of_pixels(ir::ValueId x) {
    const int64_t groups = sizes_.groups, channels = sizes_.channels / groups, outputs = sizes_.outputs / groups,
                  sum = channels * sizes_.taps;
    std::vector<int64_t> last{0}, first{0, static_cast<int64_t>(axes()) + 1}, of_weights{0}, image(axes(), 0),
        window{groups, outputs, channels};
    for (size_t axis = 0; axis < axes(); ++axis) {
      last.push_back(static_cast<int64_t>(axis) + 2);
      first.push_back(static_cast<int64_t>(axis) + 1);
      of_weights.push_back(static_cast<int64_t>(axis) + 3);
    }
    last.push_back(1);
    of_weights.insert(of_weights.end(), {2, 1});
    window.insert(window.end(), sizes_.window.begin(), sizes_.window.end());
    image.insert(image.begin(), {groups, channels});
    if (groups > 1) x = reshaped(x, image);
    const ir::ValueId pixels = apply("Transpose", {x}, {{"perm", last}});
    ir::ValueId windows = ir::no_value;
    if (sizes_.taps > most_taps) {
      windows = seen_by_axes(pixels, 1, true);
    } else {
      const std::vector<ir::ValueId> parts = seen(pixels, 1);
      windows = parts.size() == 1 ? parts[0] : apply("Concat", parts, {{"axis", static_cast<int64_t>(axes()) + 1}});
    }
    const ir::ValueId weights = apply("Transpose", {reshaped(node_.inputs[1], window)}, {{"perm", of_weights}});
    const bool one = groups == 1;
    const ir::ValueId product =
        apply("MatMul", {one ? reshaped(windows, {-1, sum}) : reshaped(windows, {groups, sizes_.places, sum}),
                         one ? reshaped(weights, {sum, outputs}) : reshaped(weights, {groups, sum, outputs})});
    std::vector<int64_t> of_result{-1}, whole{-1, sizes_.outputs};
    of_result.insert(of_result.end(), sizes_.result.begin(), sizes_.result.end());
    of_result.push_back(outputs);
    whole.insert(whole.end(), sizes_.result.begin(), sizes_.result.end());
    const ir::ValueId value = apply("Transpose", {reshaped(product, of_result)}, {{"perm", first}});
    return one ? value : reshaped(value, whole);
  }

  /// Windows as [batch, groups, channels and taps, places], which the weights of each group multiply.
  ir::ValueId of_groups(ir::ValueId x) {
    ir::ValueId windows = ir::no_value;
    if (sizes_.taps > most_taps) {
      windows = seen_by_axes(x, 2, false);
    } else {
      std::vector<ir::ValueId> parts = seen(x, 2);
      if (parts.size() > 1)
        for (ir::ValueId& part : parts) part = apply("Unsqueeze", {part, numbers({2})});
      windows = parts.size() == 1 ? parts[0] : apply("Concat", parts, {{"axis", int64_t{2}}});
    }
    const int64_t sum = sizes_.channels / sizes_.groups * sizes_.taps;
    std::vector<int64_t> of_windows{sizes_.groups, sum, sizes_.places};
    if (sizes_.batch != 1) of_windows.insert(of_windows.begin(), -1);
    std::vector<int64_t> of_result{-1, sizes_.outputs};
    of_result.insert(of_result.end(), sizes_.result.begin(), sizes_.result.end());
    return reshaped(apply("MatMul", {reshaped(node_.inputs[1], {sizes_.groups, sizes_.outputs / sizes_.groups, sum}),
                                     reshaped(windows, of_windows)}),
                    of_result);
  }

  ir::Graph& graph_;
  const ir::Node& node_;
  const Sizes& sizes_;
  const std::string name_;
};

/// Planes under a window each, side by side along rows, for which there are kernels: windows of one channel make poor
/// products.
bool is_of_planes(const Sizes& sizes) {
  return sizes.groups > 1 && sizes.groups == sizes.channels && sizes.window.size() == 2 && sizes.strides[1] == 1 &&
         std::all_of(sizes.pads.begin(), sizes.pads.end(), [](int64_t pad) { return pad == 0; });
}

bool to_products(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.inputs.size() > 3 || graph.value(node.outputs[0]).dtype != DType::f32 ||
      graph.constant(node.inputs[1]) || !is_of_a_run(graph, node.inputs[1]))
    return false;
  const std::optional<Sizes> sizes = sizes_of(graph, node);
  if (!sizes || is_of_planes(*sizes)) return false;
  replace(graph, id, Lowering(graph, node, *sizes).result());
  return true;
}

}  // namespace
}  // namespace tenon::passes::run_weights

namespace tenon::passes {

bool lower_run_weights(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return run_weights::to_products(graph, id); });
}

}  // namespace tenon::passes
