// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using List = std::vector<int64_t>;

/// Sizes behind the batch; none where one of them, or the rank, is another.
std::optional<List> volume(const ir::Graph& graph, ir::ValueId id) {
  const ir::Shape* shape = shape_of(graph, id);
  if (!shape || shape->size() != 5) return std::nullopt;
  List sizes;
  for (size_t axis = 1; axis < 5; ++axis) {
    if (!(*shape)[axis].is_constant()) return std::nullopt;
    sizes.push_back((*shape)[axis].value());
  }
  return sizes;
}

/// Nodes in the place of one, which have its origins and name.
struct Chain {
  ir::Graph& graph;
  const ir::Node& node;
  std::string name;
  ir::ValueId value;

  void apply(const char* op, std::vector<ir::ValueId> more, ir::Attributes attributes) {
    more.insert(more.begin(), value);
    value = graph.apply(op, more, std::move(attributes), node.origins, name);
  }
  void reshape(List to) { apply("Reshape", {constant(graph, name + ".sizes", std::move(to))}, {}); }
};

/// A pool over height and width, then one over depth: the largest of the largest, the mean of means of as many.
bool split_pool(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto x = volume(graph, node.inputs[0]), y = volume(graph, node.outputs[0]);
  if (!x || !y || node.outputs.size() > 1) return false;
  const List kernel = node.integers("kernel_shape"), strides = node.integers("strides", {1, 1, 1}),
             dilations = node.integers("dilations", {1, 1, 1}), pads = node.integers("pads", List(6, 0));
  if (kernel.size() != 3 || strides.size() != 3 || dilations.size() != 3 || pads.size() != 6) return false;
  const bool padded_by_numbers = node.text("auto_pad", "NOTSET") == "NOTSET";
  const auto pool = [&](Chain& chain, const List& window, const List& by, const List& apart, const List& around) {
    ir::Attributes attributes = node.attributes;
    attributes["kernel_shape"] = window, attributes["strides"] = by;
    if (node.has("dilations")) attributes["dilations"] = apart;
    if (padded_by_numbers) attributes["pads"] = around;
    chain.apply(node.op.str().c_str(), {}, std::move(attributes));
  };
  Chain chain{graph, node, graph.value(node.outputs[0]).name, node.inputs[0]};
  chain.reshape({-1, (*x)[0] * (*x)[1], (*x)[2], (*x)[3]});
  pool(chain, {kernel[1], kernel[2]}, {strides[1], strides[2]}, {dilations[1], dilations[2]},
       {pads[1], pads[2], pads[4], pads[5]});
  chain.reshape({-1, (*x)[0], (*x)[1], (*y)[2] * (*y)[3]});
  pool(chain, {kernel[0], 1}, {strides[0], 1}, {dilations[0], 1}, {pads[0], 0, pads[3], 0});
  chain.reshape({-1, (*y)[0], (*y)[1], (*y)[2], (*y)[3]});
  replace(graph, id, chain.value);
  return true;
}

/// Whether frames lie one behind the other, each with all of its channels, as lowered convolutions leave them.
bool made_of_frames(const ir::Graph& graph, ir::ValueId value, int most_steps = 6) {
  for (int step = 0; step < most_steps; ++step) {
    const ir::Node* made = graph.producer(value);
    if (!made) return false;
    if (made->op == "Concat" && made->integer("axis", 0) == 1)
      return std::all_of(made->inputs.begin(), made->inputs.end(),
                         [&](ir::ValueId input) { return made_of_frames(graph, input, most_steps - step - 1); });
    if (made->op == "Transpose") return made->integers("perm") == List{0, 2, 1, 3, 4};
    const bool normalises = made->op == "InstanceNormalization" || made->op == "GroupNormalization";
    const bool stores = made->op == "QuantizeLinear" || made->op == "DequantizeLinear";
    if (!normalises && !stores && (!is_elementwise(*made) || made->inputs.size() != 1)) return false;
    value = made->inputs[0];
  }
  return false;
}

/// Frames of a chain with the first and the last repeated where windows reach beyond them: they hold those, too.
void repeat_ends(Chain& chain, int64_t frames, int64_t before, int64_t behind) {
  if (before == 0 && behind == 0) return;
  const ir::ValueId all = chain.value;
  const auto number = [&](int64_t one) { return constant(chain.graph, chain.name + ".frames", List{one}); };
  std::vector<ir::ValueId> joined;
  const auto repeat = [&](int64_t frame, int64_t times) {
    chain.value = all;
    if (times > 0) chain.apply("Slice", {number(frame), number(frame + 1), number(1)}, {});
    joined.insert(joined.end(), static_cast<size_t>(times), chain.value);
  };
  repeat(0, before);
  joined.push_back(all);
  repeat(frames - 1, behind);
  chain.value = joined[0];
  chain.apply("Concat", {joined.begin() + 1, joined.end()}, {{"axis", int64_t{1}}});
}

/// The largest of each frame's windows, then of the frames that a window holds.
bool pool_frames(ir::Graph& graph, ir::NodeId id) {
  constexpr int64_t most_frames = 4;
  const ir::Node node = graph.node(id);
  const auto x = volume(graph, node.inputs[0]), y = volume(graph, node.outputs[0]);
  if (!x || !y || node.outputs.size() > 1 || node.text("auto_pad", "NOTSET") != "NOTSET" ||
      !made_of_frames(graph, node.inputs[0]))
    return false;
  const List kernel = node.integers("kernel_shape"), strides = node.integers("strides", {1, 1, 1}),
             dilations = node.integers("dilations", {1, 1, 1}), pads = node.integers("pads", List(6, 0));
  if (kernel.size() != 3 || strides.size() != 3 || dilations.size() != 3 || pads.size() != 6 || kernel[0] > most_frames)
    return false;
  const int64_t before = pads[0], behind = pads[3], last = ((*y)[1] - 1) * strides[0];
  const bool ends = before != 0 || behind != 0;
  if ((kernel[0] - 1) * dilations[0] + last + 1 > (*x)[1] + before + behind || before < 0 || behind < 0 ||
      (ends && (dilations[0] != 1 || before >= kernel[0] || last - before >= (*x)[1])))
    return false;
  ir::Attributes attributes = node.attributes;
  attributes["kernel_shape"] = List{kernel[1], kernel[2]}, attributes["strides"] = List{strides[1], strides[2]};
  if (node.has("dilations")) attributes["dilations"] = List{dilations[1], dilations[2]};
  attributes["pads"] = List{pads[1], pads[2], pads[4], pads[5]};
  const List swap{0, 2, 1, 3, 4};
  Chain chain{graph, node, graph.value(node.outputs[0]).name, node.inputs[0]};
  chain.apply("Transpose", {}, {{"perm", swap}});
  chain.reshape({-1, (*x)[0], (*x)[2], (*x)[3]});
  chain.apply("MaxPool", {}, std::move(attributes));
  chain.reshape({-1, (*x)[1], (*x)[0], (*y)[2], (*y)[3]});
  repeat_ends(chain, (*x)[1], before, behind);
  const ir::ValueId frames = chain.value;
  const auto number = [&](int64_t one) { return constant(graph, chain.name + ".frames", List{one}); };
  std::vector<ir::ValueId> seen;
  for (int64_t at = 0; at < kernel[0]; ++at) {
    const int64_t begin = at * dilations[0], end = begin + ((*y)[1] - 1) * strides[0] + 1;
    chain.value = frames;
    chain.apply("Slice", {number(begin), number(end), number(1), number(strides[0])}, {});
    seen.push_back(chain.value);
  }
  chain.value = seen[0];
  for (size_t at = 1; at < seen.size(); ++at) chain.apply("Max", {seen[at]}, {});
  chain.apply("Transpose", {}, {{"perm", swap}});
  replace(graph, id, chain.value);
  return true;
}

bool each_is(const List& list, int64_t number) {
  return std::all_of(list.begin(), list.end(), [&](int64_t one) { return one == number; });
}

/// Elements [C, M, taps] as rows [taps * M, C, 1, 1]: outputs of one place lie side by side, and so do those of
/// neighbours in a row once they are in their places.
Tensor rows_of(const Tensor& weights, int64_t inputs, int64_t outputs, int64_t taps) {
  const size_t size = size_of(weights.dtype());
  Tensor rows(weights.dtype(), {outputs * taps, inputs, 1, 1});
  const auto at = [&](int64_t place) { return place * static_cast<int64_t>(size); };
  for (int64_t c = 0; c < inputs; ++c)
    for (int64_t output = 0; output < outputs; ++output)
      for (int64_t tap = 0; tap < taps; ++tap)
        std::memcpy(rows.data<std::byte>() + at((tap * outputs + output) * inputs + c),
                    weights.data<std::byte>() + at((c * outputs + output) * taps + tap), size);
  return rows;
}

/// A list of one number for each output, or of one for all, as it is for each row.
Tensor for_rows(const Tensor& list, int64_t outputs, int64_t taps) {
  if (list.elements() == 1) return list;
  const size_t size = size_of(list.dtype());
  Tensor made(list.dtype(), {outputs * taps});
  for (int64_t tap = 0; tap < taps; ++tap)
    std::memcpy(made.data<std::byte>() + tap * outputs * static_cast<int64_t>(size), list.data<std::byte>(),
                static_cast<size_t>(outputs) * size);
  return made;
}

/// Weights of a transposed convolution as such rows: numbers, or what a DequantizeLinear with one scale, or one for
/// each output, makes of bytes.
std::optional<ir::ValueId> weight_rows(ir::Graph& graph, ir::ValueId id, const Dims& dims, int64_t taps) {
  const int64_t inputs = dims[0], outputs = dims[1];
  const std::string name = graph.value(id).name;
  if (const ir::Node* found = made_by(graph, id, "DequantizeLinear")) {
    const ir::Node read = *found;
    const int64_t axis = read.integer("axis", 1);
    const auto fits = [&](const Tensor* list) {
      return list && (list->elements() == 1 || ((axis == 1 || axis == -4) && list->elements() == outputs));
    };
    const bool has_zeros = read.inputs.size() > 2 && read.inputs[2] != ir::no_value;
    const Tensor* bytes = graph.constant(read.inputs[0]);
    if (bytes && size_of(bytes->dtype()) == 1 && !read.integer("block_size", 0) &&
        fits(graph.constant(read.inputs[1])) && (!has_zeros || fits(graph.constant(read.inputs[2])))) {
      std::vector<ir::ValueId> parts{graph.add_constant(name, rows_of(*bytes, inputs, outputs, taps))};
      for (size_t at = 1; at < (has_zeros ? 3 : 2); ++at)
        parts.push_back(graph.add_constant("", for_rows(*graph.constant(read.inputs[at]), outputs, taps)));
      return graph.apply("DequantizeLinear", parts, {{"axis", int64_t{0}}}, read.origins, name);
    }
  }
  const std::optional<Tensor> numbers = numbers_of(graph, id);
  if (!numbers || numbers->dtype() != DType::f32) return std::nullopt;
  return graph.add_constant(name, rows_of(*numbers, inputs, outputs, taps));
}

/// Where blocks of the output lie side by side, a transposed convolution is a product for each element of the input,
/// whose results are put in their places.
bool lower_transposed(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto x = volume(graph, node.inputs[0]), y = volume(graph, node.outputs[0]);
  const std::optional<Tensor> weights = numbers_of(graph, node.inputs[1]);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  const Tensor* bias = has_bias ? graph.constant(node.inputs[2]) : nullptr;
  if (!x || !y || !weights || weights->dtype() != DType::f32 || weights->dims().rank() != 5 || has_bias != !!bias)
    return false;
  const List kernel(weights->dims().begin() + 2, weights->dims().end());
  if (node.integers("strides", {1, 1, 1}) != kernel || node.integer("group", 1) != 1 ||
      node.text("auto_pad", "NOTSET") != "NOTSET" || node.has("output_shape") || node.has("activation") ||
      !each_is(node.integers("pads", {}), 0) || !each_is(node.integers("dilations", {}), 1) ||
      !each_is(node.integers("output_padding", {}), 0))
    return false;
  const int64_t inputs = weights->dims()[0], outputs = weights->dims()[1],
                taps = std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> biases;
  for (int64_t row = 0; bias && row < outputs * taps; ++row) biases.push_back(bias->data<float>()[row % outputs]);
  Chain chain{graph, node, graph.value(node.outputs[0]).name, node.inputs[0]};
  chain.reshape({-1, inputs, (*x)[1] * (*x)[2], (*x)[3]});
  std::vector<ir::ValueId> operands{*weight_rows(graph, node.inputs[1], weights->dims(), taps)};
  if (bias) operands.push_back(constant(graph, chain.name + ".bias", {outputs * taps}, biases));
  chain.apply("Conv", operands, {{"kernel_shape", List{1, 1}}});
  chain.reshape({-1, kernel[0], kernel[1], kernel[2], outputs, (*x)[1], (*x)[2], (*x)[3]});
  chain.apply("Transpose", {}, {{"perm", List{0, 5, 1, 6, 2, 7, 3, 4}}});
  chain.reshape({-1, (*y)[1], (*y)[2], (*y)[3], outputs});
  chain.apply("Transpose", {}, {{"perm", List{0, 4, 1, 2, 3}}});
  replace(graph, id, chain.value);
  return true;
}

/// Frames of a transposed convolution: output frame q * stride + phase is the sum of those taps of input frames q +
/// offset.
struct FrameTaps {
  struct Tap {
    int64_t offset, at;
  };
  std::vector<std::vector<Tap>> phases;  // by offsets
  int64_t count;                         // output frames of a phase
  int64_t before, behind;                // frames of zeros around those that there are

  FrameTaps(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
      : phases(static_cast<size_t>(stride)), count((out + stride - 1) / stride), before(0), behind(0) {
    for (int64_t at = kernel - 1; at >= 0; --at)
      for (int64_t phase = 0; phase < stride; ++phase) {
        if ((phase + pad - at) % stride != 0) continue;
        const int64_t offset = (phase + pad - at) / stride;
        phases[static_cast<size_t>(phase)].push_back({offset, at});
        before = std::max(before, -offset), behind = std::max(behind, offset + count - in);
      }
  }
  bool has_gaps() const {
    return std::any_of(phases.begin(), phases.end(), [](const auto& taps) { return taps.empty(); });
  }
};

/// Weights [C, M, D, H, W] of some frames of a window, one behind the other, as [frames * C, M, H, W].
Tensor taps_of_phase(const Tensor& weights, const std::vector<FrameTaps::Tap>& taps) {
  const Dims& d = weights.dims();
  const int64_t plane = d[3] * d[4];
  Tensor result(DType::f32, {static_cast<int64_t>(taps.size()) * d[0], d[1], d[3], d[4]});
  auto* to = result.data<float>();
  for (const FrameTaps::Tap& tap : taps)
    for (int64_t row = 0; row < d[0] * d[1]; ++row)
      to = std::copy_n(weights.data<float>() + (row * d[2] + tap.at) * plane, plane, to);
  return result;
}

/// Blocks of the output overlap, or parts of them are left out: transposed convolutions over height and width, one for
/// each phase of the output frames, whose channels are those of all frames that it sees.
bool lower_overlapping(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto x = volume(graph, node.inputs[0]), y = volume(graph, node.outputs[0]);
  const std::optional<Tensor> weights = numbers_of(graph, node.inputs[1]);
  if (!x || !y || !weights || weights->dtype() != DType::f32 || weights->dims().rank() != 5 ||
      node.text("auto_pad", "NOTSET") != "NOTSET" || node.has("output_shape") || node.has("activation") ||
      !each_is(node.integers("dilations", {}), 1))
    return false;
  const List strides = node.integers("strides", {1, 1, 1}), pads = node.integers("pads", List(6, 0)),
             extra = node.integers("output_padding", {0, 0, 0});
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; })) return false;
  const Dims& d = weights->dims();
  const int64_t groups = node.integer("group", 1);
  const FrameTaps frames((*x)[1], (*y)[1], d[2], strides[0], pads[0]);
  if (frames.has_gaps()) return false;
  Chain chain{graph, node, graph.value(node.outputs[0]).name, node.inputs[0]};
  const auto list = [&](List values) { return constant(graph, chain.name + ".sizes", values); };
  chain.apply("Transpose", {}, {{"perm", List{0, 2, 1, 3, 4}}});
  if (frames.before || frames.behind)
    chain.apply("Pad", {list({0, frames.before, 0, 0, 0, 0, frames.behind, 0, 0, 0})}, {{"mode", "constant"}});
  const ir::ValueId padded = chain.value;
  const auto seen = [&](const FrameTaps::Tap& tap) {
    const int64_t begin = frames.before + tap.offset;
    chain.value = padded;
    chain.apply("Slice", {list({begin}), list({begin + frames.count}), list({1}), list({1})}, {});
    return chain.value;
  };
  // Taps whose frames lie side by side as channels.
  const auto transposed = [&](const std::vector<FrameTaps::Tap>& taps, bool biased) {
    std::vector<ir::ValueId> all;
    for (const FrameTaps::Tap& tap : taps) all.push_back(seen(tap));
    chain.value = all[0];
    if (all.size() > 1) chain.apply("Concat", {all.begin() + 1, all.end()}, {{"axis", int64_t{2}}});
    chain.reshape({-1, static_cast<int64_t>(taps.size()) * d[0], (*x)[2], (*x)[3]});
    std::vector<ir::ValueId> operands{
        graph.add_constant(graph.value(node.inputs[1]).name, taps_of_phase(*weights, taps))};
    if (biased && node.inputs.size() > 2) operands.push_back(node.inputs[2]);
    ir::Attributes attributes{{"kernel_shape", List{d[3], d[4]}},
                              {"strides", List{strides[1], strides[2]}},
                              {"pads", List{pads[1], pads[2], pads[4], pads[5]}},
                              {"output_padding", List{extra[1], extra[2]}}};
    if (groups > 1) attributes["group"] = groups;
    chain.apply("ConvTranspose", operands, attributes);
    return chain.value;
  };
  std::vector<ir::ValueId> made;
  for (const std::vector<FrameTaps::Tap>& taps : frames.phases) {
    // Channels of a group would lie apart there: the sum of one for each frame.
    ir::ValueId sum = transposed(groups == 1 ? taps : std::vector{taps[0]}, true);
    for (size_t at = 1; groups > 1 && at < taps.size(); ++at) {
      transposed({taps[at]}, false);
      chain.apply("Add", {sum}, {});
      sum = chain.value;
    }
    chain.apply("Transpose", {}, {{"perm", List{0, 2, 3, 1}}});
    chain.reshape({-1, 1, (*y)[2], (*y)[3], (*y)[0]});
    made.push_back(chain.value);
  }
  chain.value = made[0];
  if (made.size() > 1) chain.apply("Concat", {made.begin() + 1, made.end()}, {{"axis", int64_t{1}}});
  const int64_t all = frames.count * strides[0];
  chain.reshape({-1, all, (*y)[2], (*y)[3], (*y)[0]});
  if (all != (*y)[1]) chain.apply("Slice", {list({0}), list({(*y)[1]}), list({1}), list({1})}, {});
  chain.apply("Transpose", {}, {{"perm", List{0, 4, 1, 2, 3}}});
  replace(graph, id, chain.value);
  return true;
}

}  // namespace

bool lower_volumes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::OpId op = graph.node(id).op;
    if (op == "ConvTranspose") return lower_transposed(graph, id) || lower_overlapping(graph, id);
    if (op == "MaxPool" && pool_frames(graph, id)) return true;
    return (op == "MaxPool" || op == "AveragePool") && split_pool(graph, id);
  });
}

}  // namespace tenon::passes
