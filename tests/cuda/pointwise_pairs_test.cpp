// SPDX-License-Identifier: Apache-2.0
// The end of a block of a ResNet and the beginning of the next one as one node of a plan for a GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/backend.h"
#include "ops/half.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "support/noise.h"

namespace tenon::tests {
namespace {

using test::noise;
using List = std::vector<int64_t>;

Tensor bytes_of(DType type, const Dims& dims, int step) {
  Tensor tensor(type, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at)
    tensor.data<uint8_t>()[at] = static_cast<uint8_t>(at * step % 251 - (type == DType::i8 ? 125 : 0));
  return tensor;
}

/// What differs from blocks as they usually are.
struct Change {
  DType type = DType::f16;
  int64_t in = 16, wide = 64, narrow = 16, kernel = 1;
  bool reads_wide = true, adds = true;
  ir::Attributes first = {}, second = {};
};

/// "a" widens and adds, "b" narrows its result, "c" reads that as well.
struct Blocks {
  ir::Graph graph;
  ir::ValueId a, b, c;

  explicit Blocks(const Change& change) : type_(change.type) {
    const ir::ValueId x = graph.add_value("x", type_, ir::Shape{2, 5, 3, change.in});
    const ir::ValueId r = graph.add_value("r", type_, ir::Shape{2, 5, 3, change.wide});
    graph.inputs = {x, r};
    ir::Attributes first = change.first;
    if (change.adds) first["residual"] = std::string("before");
    a = conv("a", x, {change.wide, change.in, 1, 1}, change.adds ? r : ir::no_value, first);
    ir::Attributes second = change.second;
    if (change.kernel > 1) second["pads"] = List(4, change.kernel / 2);
    const bool adds = second.count("residual") > 0;
    b = conv("b", a, {change.narrow, change.wide, change.kernel, change.kernel}, adds ? r : ir::no_value, second);
    c = change.reads_wide
            ? graph.apply("MaxPool", {a}, {{"kernel_shape", List{1, 1}}, {"layout", std::string("NHWC")}}, {"c"}, "c")
            : b;
    graph.outputs = {b, c};
    graph.output_names = {"b", "c"};
    graph.tidy();
    ops::infer(graph);
  }

  ir::ValueId conv(const std::string& name, ir::ValueId x, const Dims& weights, ir::ValueId r, ir::Attributes more) {
    more.insert({{"layout", std::string("NHWC")}, {"activation", std::string("relu")}});
    const ir::ValueId bias = graph.add_constant("", noise({weights[0]}, 2));
    if (type_ != DType::u8)
      return graph.apply("Conv", {x, graph.add_constant("", noise(weights, 1, 0.3f)), bias, r}, more, {name}, name);
    const auto scale = [&](float value) {
      return graph.add_constant("", Tensor::of<float>(DType::f32, {}, std::vector{value}));
    };
    const auto zero = [&](uint8_t value) {
      return graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {}, std::vector{value}));
    };
    return graph.apply("tenon:Int8Conv",
                       {x, graph.add_constant("", bytes_of(DType::i8, weights, 37)), bias, r, scale(0.02f), zero(7),
                        scale(0.003f), scale(0.1f), zero(0), scale(0.05f), zero(20)},
                       more, {name}, name);
  }
  std::vector<passes::Group> groups() const {
    return passes::groups_of(graph, backends::backend(std::string("cuda")).groups());
  }
  /// Labels of the members of the one group; empty: there is none.
  std::string found() const {
    std::string text;
    for (const passes::Group& group : groups()) {
      text += text.empty() ? group.op.str() : ", " + group.op.str();
      for (const ir::NodeId id : group.nodes) text += " " + graph.node(id).label();
    }
    return text;
  }

 private:
  DType type_;
};

TEST(PointwisePairs, AreFoundBetweenBlocks) {
  EXPECT_EQ(Blocks({}).found(), "tenon:PointwisePair a b");
  EXPECT_EQ(Blocks({.type = DType::bf16}).found(), "tenon:PointwisePair a b");
  EXPECT_EQ(Blocks({.type = DType::u8}).found(), "tenon:Int8PointwisePair a b");
  EXPECT_EQ(Blocks({.adds = false}).found(), "tenon:PointwisePair a b");
  EXPECT_EQ(Blocks({.first = {{"strides", List{1, 1}}, {"activation", std::string("silu")}}}).found(),
            "tenon:PointwisePair a b");
}

TEST(PointwisePairs, AreNotFoundElsewhere) {
  EXPECT_EQ(Blocks({.type = DType::f32}).found(), "");
  EXPECT_EQ(Blocks({.reads_wide = false}).found(), "");
  EXPECT_EQ(Blocks({.kernel = 3}).found(), "");
  EXPECT_EQ(Blocks({.in = 64}).found(), "");
  EXPECT_EQ(Blocks({.narrow = 64}).found(), "");
  EXPECT_EQ(Blocks({.wide = 48}).found(), "");
  EXPECT_EQ(Blocks({.second = {{"strides", List{2, 2}}}}).found(), "");
  EXPECT_EQ(Blocks({.in = 32, .adds = false, .first = {{"pads", List{1, 0, 0, 0}}}}).found(), "");
  EXPECT_EQ(Blocks({.second = {{"output_dtype", static_cast<int64_t>(DType::f32)}}}).found(), "");
  EXPECT_EQ(Blocks({.in = 32, .wide = 128, .narrow = 64, .second = {{"auto_pad", std::string("VALID")}}}).found(), "");
}

TEST(PointwisePairs, GiveWhatTheTwoGive) {
  for (const DType type : {DType::f16, DType::bf16, DType::u8})
    for (const bool adds : {true, false}) {
      const Blocks blocks({.type = type, .adds = adds});
      ir::Graph fused = passes::with_groups(blocks.graph, blocks.groups());
      ir::verify(fused);
      ASSERT_EQ(fused.nodes.size(), 2U);
      EXPECT_EQ(fused.nodes[0].origins, (std::vector<std::string>{"a", "b"}));
      for (ir::Value& value : fused.values)
        if (value.producer != ir::no_node) value.dtype = DType::undefined, value.shape.reset();
      ops::infer(fused);
      const auto input = [&](int64_t channels, unsigned seed) {
        if (type == DType::u8) return bytes_of(DType::u8, {2, 5, 3, channels}, static_cast<int>(seed));
        const Tensor real = noise({2, 5, 3, channels}, seed);
        Tensor narrow(type, real.dims());
        for (int64_t at = 0; at < real.elements(); ++at)
          narrow.data<uint16_t>()[at] = (type == DType::f16 ? ops::f16_bits : ops::bf16_bits)(real.data<float>()[at]);
        return narrow;
      };
      const std::vector<Tensor> inputs = {input(16, 7), input(64, 11)};
      const std::vector<Tensor> expected = ops::interpret(blocks.graph, inputs), got = ops::interpret(fused, inputs);
      ir::Graph apart = fused;
      passes::take_apart(apart, apart.value(apart.outputs[0]).producer);
      apart.tidy();
      const std::vector<Tensor> members = ops::interpret(apart, inputs);
      for (size_t at = 0; at < expected.size(); ++at) {
        EXPECT_EQ(fused.value(fused.outputs[at]).dtype, expected[at].dtype());
        for (const Tensor& result : {got[at], members[at]}) {
          ASSERT_EQ(result.dtype(), expected[at].dtype());
          ASSERT_TRUE(result.dims() == expected[at].dims());
          EXPECT_EQ(std::memcmp(result.data<std::byte>(), expected[at].data<std::byte>(), result.bytes()), 0);
        }
      }
    }
}

}  // namespace
}  // namespace tenon::tests
