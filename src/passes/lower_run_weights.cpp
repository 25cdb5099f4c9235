// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::run_weights {
namespace {

constexpr int64_t most_taps = 64;                    // each is a slice
constexpr int64_t most_elements = int64_t{1} << 26;  // of all windows side by side

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
    if (sizes.taps > most_taps || sizes.places > most_elements) return std::nullopt;
  }
  const int64_t all = std::max<int64_t>(sizes.batch, 1) * sizes.channels;
  if (all <= 0 || sizes.places <= 0 || sizes.groups <= 0 || sizes.taps <= 0 || sizes.outputs <= 0 ||
      all > most_elements / sizes.taps / sizes.places)
    return std::nullopt;
  return sizes;
}

/// Windows side by side, [batch, channels, taps, places] as one Slice for each tap, times the weights of each group.
bool to_products(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.inputs.size() > 3 || graph.value(node.outputs[0]).dtype != DType::f32 ||
      graph.constant(node.inputs[1]) || !is_of_a_run(graph, node.inputs[1]))
    return false;
  const std::optional<Sizes> sizes = sizes_of(graph, node);
  if (!sizes) return false;
  const size_t axes = sizes->window.size();
  const std::string name = graph.value(node.outputs[0]).name;
  const auto apply = [&](const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return graph.apply(op, std::move(inputs), std::move(attributes), node.origins, name);
  };
  const auto numbers = [&](const std::vector<int64_t>& list) { return constant(graph, name + ".sizes", list); };

  ir::ValueId x = node.inputs[0];
  if (std::any_of(sizes->pads.begin(), sizes->pads.end(), [](int64_t pad) { return pad > 0; })) {
    std::vector<int64_t> pads(2 * axes + 4, 0);
    std::copy_n(sizes->pads.begin(), axes, pads.begin() + 2);
    std::copy_n(sizes->pads.begin() + static_cast<std::ptrdiff_t>(axes), axes,
                pads.begin() + 4 + static_cast<std::ptrdiff_t>(axes));
    x = apply("Pad", {x, numbers(pads)}, {{"mode", "constant"}});
  }
  std::vector<int64_t> which(axes);
  for (size_t axis = 0; axis < axes; ++axis) which[axis] = static_cast<int64_t>(axis) + 2;
  std::vector<ir::ValueId> seen;
  for (int64_t tap = 0; tap < sizes->taps; ++tap) {
    std::vector<int64_t> begin(axes), end(axes);
    int64_t rest = tap;
    for (size_t axis = axes; axis-- > 0;) {
      begin[axis] = rest % sizes->window[axis] * sizes->dilations[axis];
      end[axis] = begin[axis] + (sizes->result[axis] - 1) * sizes->strides[axis] + 1;
      rest /= sizes->window[axis];
    }
    const ir::ValueId places =
        apply("Slice", {x, numbers(begin), numbers(end), numbers(which), numbers(sizes->strides)});
    seen.push_back(sizes->taps == 1 ? places : apply("Unsqueeze", {places, numbers({2})}));
  }
  const ir::ValueId windows = seen.size() == 1 ? seen[0] : apply("Concat", seen, {{"axis", int64_t{2}}});

  const int64_t sum = sizes->channels / sizes->groups * sizes->taps, rows = sizes->outputs / sizes->groups;
  std::vector<int64_t> of_windows{sum, sizes->places}, of_weights{rows, sum};
  if (sizes->batch != 1 || sizes->groups > 1) {
    of_windows.insert(of_windows.begin(), sizes->groups);
    of_weights.insert(of_weights.begin(), sizes->groups);
  }
  if (sizes->batch != 1) of_windows.insert(of_windows.begin(), -1);
  ir::ValueId value = apply("MatMul", {apply("Reshape", {node.inputs[1], numbers(of_weights)}),
                                       apply("Reshape", {windows, numbers(of_windows)})});
  std::vector<int64_t> of_result{-1, sizes->outputs};
  of_result.insert(of_result.end(), sizes->result.begin(), sizes->result.end());
  value = apply("Reshape", {value, numbers(of_result)});
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) {
    std::vector<int64_t> of_bias(axes + 1, 1);
    of_bias[0] = sizes->outputs;
    value = apply("Add", {value, apply("Reshape", {node.inputs[2], numbers(of_bias)})});
  }
  replace(graph, id, value);
  return true;
}

}  // namespace
}  // namespace tenon::passes::run_weights

namespace tenon::passes {

bool lower_run_weights(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return run_weights::to_products(graph, id); });
}

}  // namespace tenon::passes
