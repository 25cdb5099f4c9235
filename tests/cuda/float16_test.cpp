// SPDX-License-Identifier: Apache-2.0
// The pass before a build in f16: where types change, that the result stays close, and the way back.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "support/noise.h"

namespace tenon::tests {
namespace {

using test::noise;

/// Two convolutions with a pool between them, a global average, a product, and a softmax.
ir::Graph network() {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(1), ir::Dim(8), ir::Dim(8), ir::Dim(16)});
  graph.inputs = {x};
  const auto conv = [&](ir::ValueId from, int64_t in, int64_t out, unsigned seed) {
    return graph.apply("Conv", {from, graph.add_constant("", noise({out, in, 3, 3}, seed, 0.1f))},
                       {{"layout", std::string("NHWC")},
                        {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                        {"activation", std::string("relu")}},
                       {}, "conv" + std::to_string(seed));
  };
  ir::ValueId y = conv(x, 16, 32, 1);
  y = graph.apply("MaxPool", {y},
                  {{"layout", std::string("NHWC")},
                   {"kernel_shape", std::vector<int64_t>{2, 2}},
                   {"strides", std::vector<int64_t>{2, 2}}},
                  {}, "pool");
  y = conv(y, 32, 32, 2);
  y = graph.apply("GlobalAveragePool", {y}, {{"layout", std::string("NHWC")}}, {}, "average");
  const int64_t sizes[] = {1, 32};
  y = graph.apply("Reshape", {y, graph.add_constant("", Tensor::of<int64_t>(DType::i64, {2}, sizes))}, {}, {}, "flat");
  y = graph.apply("Gemm", {y, graph.add_constant("", noise({10, 32}, 3, 0.5f)), graph.add_constant("", noise({10}, 4))},
                  {{"transB", int64_t{1}}}, {}, "logits");
  graph.outputs = {graph.apply("Softmax", {y}, {{"axis", int64_t{1}}}, {}, "scores")};
  graph.output_names = {"scores"};
  graph.tidy();
  ops::infer(graph);
  return graph;
}

/// A product by weights of 4 bits, with a bias and a residual, and another behind it.
ir::Graph weight_only() {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(2), ir::Dim(32)});
  graph.inputs = {x};
  Tensor integers(DType::u8, {32, 1, 16}), scales(DType::f32, {32, 1});
  for (int64_t at = 0; at < integers.elements(); ++at) integers.data<uint8_t>()[at] = static_cast<uint8_t>(37 * at);
  for (int64_t at = 0; at < scales.elements(); ++at) scales.data<float>()[at] = 0.03125f;
  const ir::Attributes sizes{{"k", int64_t{32}}, {"block", int64_t{32}}, {"bits", int64_t{4}}};
  const auto product = [&](ir::ValueId from, ir::ValueId residual, const char* name) {
    ir::Attributes attributes = sizes;
    if (residual != ir::no_value) attributes["residual"] = std::string("before");
    return graph.apply("tenon:WeightOnlyMatMul",
                       {from, graph.add_constant("", integers), graph.add_constant("", noise({32}, 7)), residual,
                        graph.add_constant("", scales)},
                       attributes, {}, name);
  };
  graph.outputs = {product(product(x, x, "first"), ir::no_value, "second")};
  graph.output_names = {"second"};
  graph.tidy();
  ops::infer(graph);
  return graph;
}

size_t float16_values(const ir::Graph& graph, DType type = DType::f16) {
  size_t count = 0;
  for (const ir::Value& value : graph.values) count += value.dtype == type;
  return count;
}

TEST(CastToF16, RoundsTheDataOfIntegerWeights) {
  const ir::Graph before = weight_only();
  for (const DType type : {DType::f16, DType::bf16}) {
    ir::Graph after = before;
    passes::cast_to_16_bits(after, type);
    EXPECT_EQ(after.value(after.outputs[0]).dtype, DType::f32);
    EXPECT_EQ(float16_values(after, type), 2u) << ir::print(after);
    for (const ir::Node& node : after.nodes)
      if (node.alive && node.op == "tenon:WeightOnlyMatMul") {
        EXPECT_EQ(after.value(node.inputs[0]).dtype, type);
      }
    const Tensor x = noise({2, 32}, 9);
    const Tensor expected = ops::interpret(before, {x})[0], got = ops::interpret(after, {x})[0];
    for (int64_t at = 0; at < got.elements(); ++at)
      EXPECT_NEAR(got.data<float>()[at], expected.data<float>()[at], type == DType::f16 ? 3e-2 : 2e-1);
  }
}

void keeps_ends_and_stays_close(DType type, float tolerance) {
  const ir::Graph before = network();
  ir::Graph after = before;
  passes::cast_to_16_bits(after, type);
  EXPECT_EQ(after.value(after.inputs[0]).dtype, DType::f32);
  EXPECT_EQ(after.value(after.outputs[0]).dtype, DType::f32);
  EXPECT_GE(float16_values(after, type), 5u) << ir::print(after);
  EXPECT_EQ(float16_values(after, type == DType::f16 ? DType::bf16 : DType::f16), 0u);
  for (const ir::Node& node : after.nodes) {
    EXPECT_NE(node.op, "Gemm") << "products become convolutions";
    if (node.op == "Softmax") {
      EXPECT_EQ(after.value(node.inputs[0]).dtype, DType::f32);
    }
  }
  const Tensor x = noise({1, 8, 8, 16}, 5);
  const Tensor expected = ops::interpret(before, {x})[0], got = ops::interpret(after, {x})[0];
  ASSERT_TRUE(expected.dims() == got.dims());
  for (int64_t at = 0; at < got.elements(); ++at)
    EXPECT_NEAR(got.data<float>()[at], expected.data<float>()[at], tolerance * expected.data<float>()[at] + 1e-5);
}

TEST(CastToF16, KeepsInputsAndOutputsAndStaysClose) { keeps_ends_and_stays_close(DType::f16, 2e-3f); }
TEST(CastToBf16, KeepsInputsAndOutputsAndStaysClose) { keeps_ends_and_stays_close(DType::bf16, 2e-2f); }

TEST(CastToF16, RmsNormalisationReadsF32AndGivesF16) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(4), ir::Dim(64)});
  graph.inputs = {x};
  const ir::ValueId rows =
      graph.apply("RMSNormalization", {x, graph.add_constant("", noise({64}, 1))}, {{"epsilon", 1e-6f}}, {}, "rows");
  graph.outputs = {graph.apply("MatMul", {rows, graph.add_constant("", noise({64, 32}, 2, 0.1f))}, {}, {}, "y")};
  graph.output_names = {"y"};
  graph.tidy();
  ops::infer(graph);
  const Tensor given = noise({4, 64}, 3);
  const Tensor expected = ops::interpret(graph, {given})[0];
  passes::cast_to_16_bits(graph, DType::f16);
  for (const ir::Node& node : graph.nodes) {
    EXPECT_NE(node.op, "Cast") << ir::print(graph);
    if (node.op != "RMSNormalization") continue;
    EXPECT_EQ(graph.value(node.inputs[0]).dtype, DType::f32);
    EXPECT_EQ(graph.value(node.outputs[0]).dtype, DType::f16);
  }
  const Tensor got = ops::interpret(graph, {given})[0];
  for (int64_t at = 0; at < got.elements(); ++at) EXPECT_NEAR(got.data<float>()[at], expected.data<float>()[at], 5e-3);
}

TEST(CastToF16, IsUndoneByWidening) {
  ir::Graph graph = network();
  passes::run_pass(graph, passes::Pass{"cast_to_f16", "", passes::cast_to_f16});
  for (const char* pass : {"cast_to_f32", "remove_identity"}) passes::run_pass(graph, pass);
  EXPECT_EQ(float16_values(graph), 0u) << ir::print(graph);
  for (const ir::Node& node : graph.nodes) EXPECT_NE(node.op, "Cast");
}

TEST(CastToF16, LeavesSmallProductsAlone) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{ir::Dim(4), ir::Dim(3)});
  graph.inputs = {x};
  graph.outputs = {graph.apply("MatMul", {x, graph.add_constant("", noise({3, 5}, 1))}, {}, {}, "y")};
  graph.output_names = {"y"};
  graph.tidy();
  ops::infer(graph);
  EXPECT_FALSE(passes::run_pass(graph, passes::Pass{"cast_to_f16", "", passes::cast_to_f16}).changed);
}

TEST(CastToF16, TakesFewWeightsOverLargeMaps) {
  for (const int64_t height : {16, 128}) {
    ir::Graph graph;
    const ir::ValueId x =
        graph.add_value("x", DType::f32, ir::Shape{ir::Dim(1), ir::Dim(height), ir::Dim(128), ir::Dim(8)});
    graph.inputs = {x};
    const ir::ValueId in = graph.apply("Relu", {x}, {}, {}, "in");
    graph.outputs = {graph.apply("Conv", {in, graph.add_constant("", noise({1, 8, 3, 3}, 1))},
                                 {{"layout", std::string("NHWC")}, {"pads", std::vector<int64_t>(4, 1)}}, {}, "y")};
    graph.output_names = {"y"};
    graph.tidy();
    ops::infer(graph);
    const bool changed = passes::run_pass(graph, passes::Pass{"cast_to_f16", "", passes::cast_to_f16}).changed;
    EXPECT_EQ(changed, height == 128);
    for (const ir::Node& node : graph.nodes)
      if (node.op == "Conv") {
        EXPECT_EQ(graph.value(node.inputs[0]).dtype, changed ? DType::f16 : DType::f32);
        EXPECT_EQ(graph.value(node.outputs[0]).dtype, DType::f32);
      }
  }
}

ir::ValueId input(ir::Graph& graph, const char* name, const ir::Shape& shape, DType type = DType::f32) {
  const ir::ValueId value = graph.add_value(name, type, shape);
  graph.inputs.push_back(value);
  return value;
}

void finish(ir::Graph& graph, ir::ValueId output) {
  graph.outputs = {output}, graph.output_names = {"y"};
  graph.tidy();
  ops::infer(graph);
}

const ir::Node* only(const ir::Graph& graph, const char* op) {
  const ir::Node* found = nullptr;
  for (const ir::Node& node : graph.nodes)
    if (node.alive && node.op == op) found = found ? nullptr : &node;
  return found;
}

/// A table of words that also scores them, as language models end.
TEST(CastToF16, ReadsTiedWeightsWhereTheyLie) {
  ir::Graph graph;
  const ir::ValueId ids = input(graph, "ids", {ir::Dim(2), ir::Dim(3)}, DType::i64);
  const ir::ValueId table = graph.add_constant("table", noise({4100, 64}, 7));
  const ir::ValueId words = graph.apply("Gather", {table, ids}, {}, {"words"}, "words");
  const ir::ValueId turned =
      graph.apply("Transpose", {table}, {{"perm", std::vector<int64_t>{1, 0}}}, {"turn"}, "turned");
  finish(graph, graph.apply("MatMul", {words, turned}, {}, {"scores"}, "scores"));
  const ir::Graph before = graph;
  passes::optimise(graph);
  passes::cast_to_16_bits(graph, DType::f16);
  const ir::Node *conv = only(graph, "Conv"), *gather = only(graph, "Gather");
  ASSERT_TRUE(conv && gather) << ir::print(graph);
  EXPECT_EQ(graph.value(conv->inputs[0]).dtype, DType::f16);
  EXPECT_EQ(graph.constant(conv->inputs[1])->data(), graph.constant(gather->inputs[0])->data());
  const int64_t picked[] = {0, 4099, 17, 2048, 1, 77};
  const Tensor x = Tensor::of<int64_t>(DType::i64, {2, 3}, picked);
  const Tensor expected = ops::interpret(before, {x})[0], got = ops::interpret(graph, {x})[0];
  for (int64_t at = 0; at < got.elements(); ++at)
    ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 2e-2) << at;
}

/// A product's precision does not depend on what its operands are.
TEST(CastToF16, ComputesProductsOfValues) {
  for (const char* form : {"MatMul", "Gemm", "constant"}) {
    ir::Graph graph;
    const bool gemm = form == std::string("Gemm"), constant = form == std::string("constant");
    const ir::Shape matrix{ir::Dim(5), ir::Dim(32)};
    ir::ValueId a = input(graph, "a", matrix);
    const ir::ValueId b = constant ? graph.add_constant("", noise({3, 32, 9}, 8))
                                   : input(graph, "b", gemm ? ir::Shape{9, 32} : ir::Shape{32, 9});
    finish(graph, gemm ? graph.apply("Gemm", {a, b}, {{"transB", int64_t{1}}, {"alpha", 0.5f}}, {"y"}, "y")
                       : graph.apply("MatMul", {a, b}, {}, {"y"}, "y"));
    const ir::Graph before = graph;
    passes::optimise(graph);
    passes::adapt_to_gpu(graph);
    passes::cast_to_16_bits(graph, DType::f16);
    const ir::Node* product = only(graph, "MatMul");
    ASSERT_TRUE(product) << ir::print(graph);
    for (const ir::ValueId operand : product->inputs) EXPECT_EQ(graph.value(operand).dtype, DType::f16) << form;
    EXPECT_EQ(graph.value(product->outputs[0]).dtype, DType::f32) << form;
    std::vector<Tensor> inputs{noise({5, 32}, 5)};
    if (!constant) inputs.push_back(noise(gemm ? Dims{9, 32} : Dims{32, 9}, 6));
    const Tensor expected = ops::interpret(before, inputs)[0], got = ops::interpret(graph, inputs)[0];
    for (int64_t at = 0; at < got.elements(); ++at)
      ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 1e-2) << form << " " << at;
  }
}

ir::ValueId integers(ir::Graph& graph, const Dims& dims, const std::vector<int64_t>& numbers) {
  return graph.add_constant("", Tensor::of<int64_t>(DType::i64, dims, numbers));
}

/// Patches of an image multiplied and put together again: what moves between products moves halves.
TEST(CastToF16, MovesHalvesBetweenProducts) {
  ir::Graph graph;
  const ir::ValueId x = input(graph, "x", {ir::Dim(1), ir::Dim(6), ir::Dim(6), ir::Dim(16)});
  ir::ValueId y = graph.apply("MatMul", {x, graph.add_constant("", noise({16, 16}, 1, 0.3f))}, {}, {}, "values");
  const ir::ValueId one = graph.add_constant("one", noise({}, 2));
  y = graph.apply("Pad", {y, integers(graph, {8}, {0, 1, 1, 0, 0, 1, 1, 0}), one}, {}, {}, "padded");
  y = graph.apply("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}, {}, "planes");
  const ir::ValueId places = integers(graph, {3, 3}, {0, 2, 4, 1, 3, 5, 2, 4, 6});
  y = graph.apply("Gather", {y, places}, {{"axis", int64_t{2}}}, {}, "rows");
  y = graph.apply("Gather", {y, places}, {{"axis", int64_t{4}}}, {}, "windows");
  y = graph.apply("Reshape", {y, integers(graph, {2}, {16, 81})}, {}, {}, "lines");
  y = graph.apply("MatMul", {graph.add_constant("", noise({144, 16}, 3, 0.3f)), y}, {}, {}, "mixed");
  y = graph.apply("Reshape", {y, integers(graph, {3}, {1, 1296, 9})}, {}, {}, "columns");
  y = graph.apply("Col2Im", {y, integers(graph, {2}, {6, 6}), integers(graph, {2}, {3, 3})},
                  {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}, {}, "image");
  y = graph.apply("Reshape", {y, integers(graph, {2}, {144, 36})}, {}, {}, "image_rows");
  finish(graph, graph.apply("MatMul", {y, graph.add_constant("", noise({36, 16}, 4, 0.3f))}, {}, {}, "y"));
  const ir::Graph before = graph;
  passes::cast_to_16_bits(graph, DType::f16);
  for (const char* op : {"Pad", "Transpose", "Gather", "Col2Im"})
    for (const ir::Node& node : graph.nodes) {
      if (!node.alive || node.op != op) continue;
      EXPECT_EQ(graph.value(node.inputs[0]).dtype, DType::f16) << op;
      EXPECT_EQ(graph.value(node.outputs[0]).dtype, DType::f16) << op;
    }
  const ir::Node* cast = only(graph, "Cast");
  ASSERT_TRUE(cast) << ir::print(graph);
  EXPECT_EQ(cast->inputs[0], graph.inputs[0]);
  const Tensor given = noise({1, 6, 6, 16}, 5);
  const Tensor expected = ops::interpret(before, {given})[0], got = ops::interpret(graph, {given})[0];
  for (int64_t at = 0; at < got.elements(); ++at)
    ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 3e-2) << at;
}

/// E[x * x] - E[x]^2 of 512 numbers near 40: more than an f16 holds, and a small difference of large numbers.
TEST(CastToF16, KeepsSumsOfSquaresInF32UpToTheirRoot) {
  ir::Graph graph;
  const ir::ValueId x = input(graph, "x", {ir::Dim(4), ir::Dim(32)});
  const ir::ValueId y = graph.apply(
      "MatMul",
      {x, graph.add_constant("", noise({32, 512}, 1, 0.5f)), graph.add_constant("", Tensor(DType::f32, {512}))}, {}, {},
      "values");
  const ir::ValueId shift = graph.add_constant("", Tensor::of<float>(DType::f32, {}, std::array{40.f}));
  const ir::ValueId inverse = graph.add_constant("", Tensor::of<float>(DType::f32, {}, std::array{1.f / 512}));
  const ir::ValueId axes = integers(graph, {1}, {1});
  const ir::ValueId moved = graph.apply("Add", {y, shift}, {}, {}, "moved");
  const ir::ValueId squares = graph.apply("Mul", {moved, moved}, {}, {}, "squares");
  const ir::ValueId sum = graph.apply("ReduceSum", {squares, axes}, {}, {}, "sum");
  const ir::ValueId mean = graph.apply("ReduceMean", {moved, axes}, {}, {}, "mean");
  const ir::ValueId variance = graph.apply(
      "Sub",
      {graph.apply("Mul", {sum, inverse}, {}, {}, "of_squares"), graph.apply("Mul", {mean, mean}, {}, {}, "of_mean")},
      {}, {}, "variance");
  const ir::ValueId centred = graph.apply("Sub", {moved, mean}, {}, {}, "centred");
  const ir::ValueId scaled =
      graph.apply("tenon:Elementwise", {centred, variance},
                  {{"program", std::vector<std::string>{"sqrt %1", "reciprocal %2", "mul %0 %3"}}}, {}, "scaled");
  const ir::ValueId small = graph.apply("Relu", {scaled}, {}, {}, "positive");
  finish(graph, graph.apply("MatMul", {small, graph.add_constant("", noise({512, 16}, 2, 0.1f))}, {}, {}, "y"));
  const ir::Graph before = graph;
  passes::cast_to_16_bits(graph, DType::f16);
  const std::set<std::string> wide{"squares", "sum", "of_squares", "of_mean", "variance"};
  std::set<std::string> found;
  for (const ir::Node& node : graph.nodes) {
    const ir::Value& value = graph.value(node.outputs[0]);
    if (node.alive && wide.count(value.name) && value.dtype == DType::f32) found.insert(value.name);
  }
  EXPECT_EQ(found, wide) << ir::print(graph);
  EXPECT_GE(float16_values(graph), 2u) << ir::print(graph);
  const Tensor given = noise({4, 32}, 3);
  const Tensor expected = ops::interpret(before, {given})[0], got = ops::interpret(graph, {given})[0];
  for (int64_t at = 0; at < got.elements(); ++at)
    ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 5e-2) << at;
}

}  // namespace
}  // namespace tenon::tests
