// SPDX-License-Identifier: Apache-2.0
// Fusion groups as one node of a plan for a GPU: a pointwise, a depthwise and a pointwise convolution, the convolution
// of an image with the max pool of its result.
#include "group_nets.h"
#include "plan/plan.h"

namespace tenon::tests {
namespace {

Net two_blocks() {
  Net net;
  const ir::ValueId x = net.input(9, 16);
  const ir::ValueId first = net.block(x, 16, 48, 16, "1", {{"residual", std::string("before")}});
  net.finish({net.block(first, 16, 40, 24, "2")});
  return net;
}

TEST(Bottlenecks, AreFoundWhereEachResultIsReadOnce) {
  EXPECT_EQ(groups_of(two_blocks().graph), "tenon:InvertedBottleneck e1 d1 p1, tenon:InvertedBottleneck e2 d2 p2");

  Net read_twice;
  const ir::ValueId x = read_twice.input(9, 16);
  const ir::ValueId e = read_twice.conv(x, 16, 48, 1, "e");
  const ir::ValueId p = read_twice.conv(read_twice.conv(e, 1, 48, 3, "d"), 48, 16, 1, "p");
  read_twice.finish({p, e});
  EXPECT_EQ(groups_of(read_twice.graph), "tenon:InvertedBottleneck d p");

  Net seen;
  const ir::ValueId d = seen.conv(seen.input(9, 16), 1, 16, 3, "d");
  seen.finish({seen.conv(d, 16, 24, 1, "p"), d});
  EXPECT_EQ(groups_of(seen.graph), "");
}

TEST(Bottlenecks, OfLayersThatDoNotWidenBeginWithTheWindow) {
  Net net;
  ir::ValueId x = net.conv(net.input(9, 16), 16, 32, 1, "a");
  x = net.conv(net.conv(x, 1, 32, 3, "b"), 32, 64, 1, "c");
  net.finish({net.conv(net.conv(x, 1, 64, 3, "d"), 64, 64, 1, "e")});
  EXPECT_EQ(groups_of(net.graph), "tenon:InvertedBottleneck b c, tenon:InvertedBottleneck d e");
}

TEST(Bottlenecks, EndWithTheWindowWhereItsResultIsNotNarrowed) {
  Net net;
  const ir::Attributes relu{{"activation", std::string("relu")}};
  const ir::ValueId d = net.conv(net.conv(net.input(9, 16), 16, 48, 1, "e", relu), 1, 48, 3, "d", relu);
  const ir::ValueId scaled = net.graph.apply("Mul", {d, d}, {}, {"scale"});
  net.finish({net.conv(scaled, 48, 16, 1, "p")});
  EXPECT_EQ(groups_of(net.graph), "tenon:InvertedBottleneck e d");
  gives_the_same(net, "tenon:InvertedBottleneck Mul Conv");
}

TEST(Bottlenecks, AreOfSixteenBits) {
  Net net = two_blocks();
  for (ir::Value& value : net.graph.values)
    if (value.dtype == DType::f16) value.dtype = DType::f32;
  EXPECT_EQ(groups_of(net.graph), "");
}

TEST(Bottlenecks, GiveWhatTheirConvolutionsGive) {
  const Net net = two_blocks();
  gives_the_same(net, "tenon:InvertedBottleneck tenon:InvertedBottleneck");
  const ir::Graph fused = fused_of(net);
  EXPECT_EQ(fused.nodes[0].origins, (std::vector<std::string>{"e1", "d1", "p1"}));
}

/// An image's convolution "c" and a pool "m" of its result, with these attributes before the usual ones.
struct Stem {
  Net net;
  ir::ValueId c, m;

  explicit Stem(DType type, ir::Attributes conv = {}, ir::Attributes pool = {}, int64_t channels = 3) {
    ir::Graph& graph = net.graph;
    const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{2, channels, 19, 22});
    graph.inputs.push_back(x);
    conv.insert({{"layout", std::string("NHWC")},
                 {"input_layout", std::string("NCHW")},
                 {"activation", std::string("relu")},
                 {"strides", std::vector<int64_t>{2, 2}},
                 {"pads", std::vector<int64_t>{2, 2, 2, 2}}});
    pool.insert({{"layout", std::string("NHWC")},
                 {"kernel_shape", std::vector<int64_t>{3, 3}},
                 {"strides", std::vector<int64_t>{2, 2}},
                 {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    const bool bytes = type == DType::u8;
    if (!bytes) conv["output_dtype"] = static_cast<int64_t>(type);
    const int64_t groups = conv.count("group") ? std::get<int64_t>(conv["group"]) : 1;
    const Dims kernel{8, channels / groups, 5, 5};
    const ir::ValueId bias = graph.add_constant("", noise({8}, 2));
    if (bytes) {
      Tensor weights(DType::i8, kernel);
      for (int64_t at = 0; at < weights.elements(); ++at)
        weights.data<int8_t>()[at] = static_cast<int8_t>(at * 37 % 255 - 127);
      const auto scale = [&](float value) {
        return graph.add_constant("", Tensor::of<float>(DType::f32, {}, std::vector{value}));
      };
      const auto zero = [&](uint8_t value) {
        return graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {}, std::vector{value}));
      };
      c = graph.apply("tenon:Int8Conv",
                      {x, graph.add_constant("", weights), bias, ir::no_value, scale(0.008f), zero(128), scale(0.004f),
                       scale(0.03f), zero(3)},
                      conv, {"c"}, "c");
    } else {
      c = graph.apply("Conv", {x, graph.add_constant("", noise(kernel, 1, 0.4f)), bias}, conv, {"c"}, "c");
    }
    m = graph.apply("MaxPool", {c}, pool, {"m"}, "m");
  }
  const Net& finished(std::vector<ir::ValueId> outputs) {
    net.finish(std::move(outputs));
    return net;
  }
  const Net& finished() { return finished({m}); }
};

constexpr DType stem_types[] = {DType::f16, DType::bf16, DType::f32, DType::u8};

TEST(PooledConvolutions, AreFoundBehindAImage) {
  for (const DType type : stem_types) {
    const std::string op = type == DType::u8 ? "tenon:Int8ConvMaxPool" : "tenon:ConvMaxPool";
    EXPECT_EQ(groups_of(Stem(type).finished().graph), op + " c m");
    EXPECT_EQ(groups_of(Stem(type, {{"activation", std::string("clip")}}).finished().graph), op + " c m");
    EXPECT_EQ(groups_of(Stem(type, {{"activation", std::string()}}).finished().graph), op + " c m");
    const ir::Attributes inside{{"pads", std::vector<int64_t>{0, 0, 0, 0}}};
    EXPECT_EQ(groups_of(Stem(type, {}, inside).finished().graph), op + " c m");
  }
}

TEST(PooledConvolutions, AreReadByThePoolAlone) {
  for (const DType type : stem_types) {
    Stem seen(type);
    EXPECT_EQ(groups_of(seen.finished({seen.m, seen.c}).graph), "");
    Stem read_twice(type);
    const ir::ValueId other = read_twice.net.graph.apply("Identity", {read_twice.c}, {}, {"i"});
    EXPECT_EQ(groups_of(read_twice.finished({read_twice.m, other}).graph), "");
  }
}

TEST(PooledConvolutions, AreOfOneWindow) {
  using List = std::vector<int64_t>;
  const ir::Attributes others[] = {{{"kernel_shape", List{2, 2}}}, {{"kernel_shape", List{3, 2}}},
                                   {{"strides", List{1, 1}}},      {{"strides", List{2, 1}}},
                                   {{"dilations", List{2, 2}}},    {{"pads", List{2, 1, 1, 1}}},
                                   {{"pads", List{1, 2, 1, 1}}},   {{"auto_pad", std::string("SAME_UPPER")}}};
  for (const ir::Attributes& other : others)
    for (const DType type : stem_types)
      EXPECT_EQ(groups_of(Stem(type, {}, other).finished().graph), "") << other.begin()->first;
}

TEST(PooledConvolutions, AreOfFewChannelsInOneGroupAndKeepTheOrder) {
  for (const DType type : stem_types) {
    EXPECT_NE(groups_of(Stem(type, {}, {}, 4).finished().graph), "");
    EXPECT_EQ(groups_of(Stem(type, {}, {}, 5).finished().graph), "");
    EXPECT_EQ(groups_of(Stem(type, {{"group", int64_t{2}}}, {}, 4).finished().graph), "");
    for (const char* activation : {"silu", "hardswish", "gelu"})
      EXPECT_EQ(groups_of(Stem(type, {{"activation", std::string(activation)}}).finished().graph), "") << activation;
  }
}

TEST(PooledConvolutions, AddNothing) {
  Stem stem(DType::f32, {{"residual", std::string("before")}});
  ir::Graph& graph = stem.net.graph;
  graph.add_input(graph.value(stem.c).producer, graph.add_constant("", noise({2, 10, 11, 8}, 3)));
  EXPECT_EQ(groups_of(stem.finished().graph), "");
}

TEST(PooledConvolutions, GiveWhatTheTwoGive) {
  for (const DType type : stem_types) {
    gives_the_same(Stem(type).finished(), type == DType::u8 ? "tenon:Int8ConvMaxPool" : "tenon:ConvMaxPool");
    EXPECT_EQ(fused_of(Stem(type).finished()).nodes[0].origins, (std::vector<std::string>{"c", "m"}));
  }
}

TEST(Groups, HaveNoNodeInCommon) {
  Net net;
  const ir::ValueId p = net.conv(net.conv(net.input(9, 4), 1, 4, 3, "d"), 4, 2, 1, "p");
  const ir::Attributes pool{{"layout", std::string("NHWC")},
                            {"kernel_shape", std::vector<int64_t>{3, 3}},
                            {"strides", std::vector<int64_t>{2, 2}}};
  net.finish({net.graph.apply("MaxPool", {p}, pool, {"m"})});
  EXPECT_EQ(groups_of(net.graph), "tenon:InvertedBottleneck d p");
}

/// Records of the groups' keys, of a GPU that is nowhere: they hold on any.
plan::Plan plan_with(const Net& net, const std::vector<std::string>& kernels) {
  plan::Plan plan;
  plan.device = "cuda:99", plan.goal.precision = Precision::fp16;
  const ir::Graph fused = fused_of(net);
  const plan::Layout layout = plan::lay_out(fused, false, false);
  for (size_t at = 0; at < kernels.size(); ++at) {
    const auto problem = plan::problem_of(fused, static_cast<ir::NodeId>(at), layout, 1, plan);
    plan.records["some GPU" + backends::backend(plan.device).key(problem, nullptr)] = {kernels[at], 1};
  }
  return plan;
}

TEST(Groups, RunAsTheRecordsOfTheirDeviceSay) {
  const Net net = two_blocks();
  const plan::Plan one = plan_with(net, {"bottleneck 8x8, 4 warps", plan::unfused});
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, one)), "tenon:InvertedBottleneck Conv Conv Conv");
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, plan_with(net, {}))), "Conv Conv Conv Conv Conv Conv");
  plan::Plan host = one;
  host.device = Device();
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, host)), "Conv Conv Conv Conv Conv Conv");
  const plan::Plan both = plan_with(net, {"bottleneck 8x8, 4 warps", "bottleneck 8x8, 4 warps"});
  EXPECT_EQ(ops_of(plan::device_graph(net.graph, both)), "tenon:InvertedBottleneck tenon:InvertedBottleneck");

  for (const DType type : stem_types) {
    const bool bytes = type == DType::u8;
    const Net stem = Stem(type).finished();
    EXPECT_EQ(ops_of(plan::device_graph(stem.graph, plan_with(stem, {"stem"}))),
              bytes ? "tenon:Int8ConvMaxPool" : "tenon:ConvMaxPool");
    EXPECT_EQ(ops_of(plan::device_graph(stem.graph, plan_with(stem, {plan::unfused}))),
              bytes ? "tenon:Int8Conv MaxPool" : "Conv MaxPool");
  }
}

}  // namespace
}  // namespace tenon::tests
