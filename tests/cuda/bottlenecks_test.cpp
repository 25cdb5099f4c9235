// Chains of a pointwise, a depthwise and a pointwise convolution as one node of a plan for a GPU.
#include <gtest/gtest.h>

#include <random>

#include "backends/cuda/device.h"
#include "ops/half.h"
#include "ops/op.h"
#include "plan/plan.h"

namespace tenon::tests {
namespace {

using plan::BottleneckChain;

Tensor noise(const Dims& dims, unsigned seed, float most) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-most, most);
  Tensor tensor(DType::f32, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = uniform(random);
  return tensor;
}

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
                                    graph.add_constant("", noise({out}, seed + 100, 1))};
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

std::string names_of(const ir::Graph& graph, const BottleneckChain& chain) {
  const auto name = [&](ir::NodeId id) { return id == ir::no_node ? "-" : graph.node(id).label(); };
  return name(chain.expand) + " " + name(chain.depthwise) + " " + name(chain.project);
}

std::string chains_of(const ir::Graph& graph) {
  std::string text;
  for (const BottleneckChain& chain : plan::bottlenecks_of(graph))
    text += (text.empty() ? "" : ", ") + names_of(graph, chain);
  return text;
}

std::string ops_of(const ir::Graph& graph) {
  std::string text;
  for (const ir::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

/// With its chains as nodes the network is of these ops, and gives the same bits by reference kernels.
void gives_the_same(const Net& net, const std::string& nodes) {
  const ir::Graph fused = plan::with_bottlenecks(net.graph, plan::bottlenecks_of(net.graph));
  ir::verify(fused);
  ASSERT_EQ(ops_of(fused), nodes);
  const Tensor wide = noise({1, 9, 9, 16}, 7, 1);
  Tensor x(DType::f16, wide.dims());
  for (int64_t at = 0; at < x.elements(); ++at) x.data<uint16_t>()[at] = ops::f16_bits(wide.data<float>()[at]);
  const Tensor expected = ops::interpret(net.graph, {x})[0], got = ops::interpret(fused, {x})[0];
  ASSERT_TRUE(got.dims() == expected.dims());
  for (int64_t at = 0; at < got.elements(); ++at)
    ASSERT_EQ(got.data<uint16_t>()[at], expected.data<uint16_t>()[at]) << "element " << at;
}

Net two_blocks() {
  Net net;
  const ir::ValueId x = net.input(9, 16);
  const ir::ValueId first = net.block(x, 16, 48, 16, "1", {{"residual", std::string("before")}});
  net.finish({net.block(first, 16, 40, 24, "2")});
  return net;
}

TEST(Bottlenecks, AreFoundWhereEachResultIsReadOnce) {
  EXPECT_EQ(chains_of(two_blocks().graph), "e1 d1 p1, e2 d2 p2");

  Net read_twice;
  const ir::ValueId x = read_twice.input(9, 16);
  const ir::ValueId e = read_twice.conv(x, 16, 48, 1, "e");
  const ir::ValueId p = read_twice.conv(read_twice.conv(e, 1, 48, 3, "d"), 48, 16, 1, "p");
  read_twice.finish({p, e});
  EXPECT_EQ(chains_of(read_twice.graph), "- d p");

  Net seen;
  const ir::ValueId d = seen.conv(seen.input(9, 16), 1, 16, 3, "d");
  seen.finish({seen.conv(d, 16, 24, 1, "p"), d});
  EXPECT_EQ(chains_of(seen.graph), "");
}

TEST(Bottlenecks, OfLayersThatDoNotWidenBeginWithTheWindow) {
  Net net;
  ir::ValueId x = net.conv(net.input(9, 16), 16, 32, 1, "a");
  x = net.conv(net.conv(x, 1, 32, 3, "b"), 32, 64, 1, "c");
  net.finish({net.conv(net.conv(x, 1, 64, 3, "d"), 64, 64, 1, "e")});
  EXPECT_EQ(chains_of(net.graph), "- b c, - d e");
}

TEST(Bottlenecks, EndWithTheWindowWhereItsResultIsNotNarrowed) {
  Net net;
  const ir::Attributes relu{{"activation", std::string("relu")}};
  const ir::ValueId d = net.conv(net.conv(net.input(9, 16), 16, 48, 1, "e", relu), 1, 48, 3, "d", relu);
  const ir::ValueId scaled = net.graph.apply("Mul", {d, d}, {}, {"scale"});
  net.finish({net.conv(scaled, 48, 16, 1, "p")});
  EXPECT_EQ(chains_of(net.graph), "e d -");
  gives_the_same(net, "InvertedBottleneck Mul Conv");
}

TEST(Bottlenecks, AreOfSixteenBits) {
  Net net = two_blocks();
  for (ir::Value& value : net.graph.values)
    if (value.dtype == DType::f16) value.dtype = DType::f32;
  EXPECT_EQ(chains_of(net.graph), "");
}

TEST(Bottlenecks, GiveWhatTheirConvolutionsGive) {
  const Net net = two_blocks();
  gives_the_same(net, "InvertedBottleneck InvertedBottleneck");
  const ir::Graph fused = plan::with_bottlenecks(net.graph, plan::bottlenecks_of(net.graph));
  EXPECT_EQ(fused.nodes[0].origins, (std::vector<std::string>{"e1", "d1", "p1"}));
}

/// Records of the chains' keys on some GPU.
plan::Plan plan_with(const Net& net, const std::vector<std::string>& kernels) {
  plan::Plan plan;
  plan.device = "cuda", plan.precision = "fp16";
  const ir::Graph fused = plan::with_bottlenecks(net.graph, plan::bottlenecks_of(net.graph));
  const plan::Layout layout = plan::lay_out(fused, false, true);
  cuda::Properties device;
  device.name = "a GPU";
  for (size_t at = 0; at < kernels.size(); ++at) {
    const auto problem = plan::device_problem_of(fused, static_cast<ir::NodeId>(at), layout, plan);
    plan.records[plan::device_key(device, problem)] = {kernels[at], 1};
  }
  return plan;
}

TEST(Bottlenecks, RunAsTheRecordsOfTheirGpuSay) {
  const Net net = two_blocks();
  cuda::Properties device, other;
  device.name = "a GPU", other.name = "another GPU";
  const plan::Plan one = plan_with(net, {"bottleneck 8x8, 4 warps", plan::apart});
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, one, &device)), "InvertedBottleneck Conv Conv Conv");
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, one, nullptr)), "InvertedBottleneck Conv Conv Conv");
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, one, &other)), "Conv Conv Conv Conv Conv Conv");
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, {}, &device)), "Conv Conv Conv Conv Conv Conv");
  const plan::Plan both = plan_with(net, {"bottleneck 8x8, 4 warps", "bottleneck 8x8, 4 warps"});
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, both, &device)), "InvertedBottleneck InvertedBottleneck");
}

}  // namespace
}  // namespace tenon::tests
