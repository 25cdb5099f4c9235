// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "backends/backend.h"
#include "ops/half.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "support/noise.h"

/// Networks for tests of fusion groups, and what is found in them for a GPU.
namespace tenon::tests {

using test::noise;

/// A network of channels last in f16.
struct Net {
  ir::Graph graph;

  ir::ValueId input(int64_t size, int64_t channels) {
    const ir::ValueId x = graph.add_value("x", DType::f16, ir::Shape{1, size, size, channels});
    graph.inputs.push_back(x);
    return x;
  }
  ir::ValueId conv(ir::ValueId x, int64_t in, int64_t out, int64_t kernel, const std::string& name,
                   ir::Attributes more = {}) {
    const auto seed = static_cast<unsigned>(graph.nodes.size());
    ir::Attributes attributes{{"layout", std::string("NHWC")}};
    if (kernel > 1) attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1}, attributes["group"] = out;
    attributes.insert(more.begin(), more.end());
    std::vector<ir::ValueId> inputs{x, graph.add_constant("", noise({out, in, kernel, kernel}, seed, 0.4f)),
                                    graph.add_constant("", noise({out}, seed + 100))};
    if (more.count("residual")) inputs.push_back(graph.inputs[0]);
    return graph.apply("Conv", inputs, attributes, {name}, name);
  }
  /// Widens, convolves and narrows, with the names e, d and p before `name`.
  ir::ValueId block(ir::ValueId x, int64_t in, int64_t hidden, int64_t out, const std::string& name,
                    ir::Attributes last = {}) {
    const ir::Attributes relu{{"activation", std::string("relu")}};
    const ir::ValueId e = conv(x, in, hidden, 1, "e" + name, relu);
    return conv(conv(e, 1, hidden, 3, "d" + name, relu), hidden, out, 1, "p" + name, std::move(last));
  }
  void finish(std::vector<ir::ValueId> outputs) {
    graph.outputs = std::move(outputs);
    graph.output_names.assign(graph.outputs.size(), "y");
    graph.tidy();
    ops::infer(graph);
    ir::verify(graph);
  }
};

inline std::vector<passes::Group> found_in(const ir::Graph& graph) {
  return passes::groups_of(graph, backends::backend(std::string("cuda")).groups());
}

inline std::string groups_of(const ir::Graph& graph) {
  std::string text;
  for (const passes::Group& group : found_in(graph)) {
    text += (text.empty() ? "" : ", ") + group.op;
    for (const ir::NodeId id : group.nodes) text += " " + graph.node(id).label();
  }
  return text;
}

inline ir::Graph fused_of(const Net& net) { return passes::with_groups(net.graph, found_in(net.graph)); }

inline std::string ops_of(const ir::Graph& graph) {
  std::string text;
  for (const ir::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

/// With its groups as nodes the network is of these ops, and gives the same bits by reference kernels.
inline void gives_the_same(const Net& net, const std::string& nodes) {
  ir::Graph fused = fused_of(net);
  ir::verify(fused);
  ASSERT_EQ(ops_of(fused), nodes);
  ir::Value& result = fused.value(fused.outputs[0]);
  const ir::Value& expected_result = net.graph.value(net.graph.outputs[0]);
  result.dtype = DType::undefined, result.shape.reset();
  ops::infer(fused);
  EXPECT_EQ(result.dtype, expected_result.dtype);
  EXPECT_EQ(ir::str(*result.shape), ir::str(*expected_result.shape));
  const ir::Value& input = net.graph.value(net.graph.inputs[0]);
  Dims dims;
  for (const ir::Dim& dim : *input.shape) dims.push_back(dim.value());
  Tensor x = noise(dims, 7);
  if (input.dtype == DType::f16) {
    Tensor narrow(DType::f16, dims);
    for (int64_t at = 0; at < x.elements(); ++at) narrow.data<uint16_t>()[at] = ops::f16_bits(x.data<float>()[at]);
    x = narrow;
  }
  const Tensor expected = ops::interpret(net.graph, {x})[0], got = ops::interpret(fused, {x})[0];
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_TRUE(got.dims() == expected.dims());
  EXPECT_EQ(std::memcmp(got.data<uint8_t>(), expected.data<uint8_t>(), got.bytes()), 0);
}

}  // namespace tenon::tests
