// SPDX-License-Identifier: Apache-2.0
// Passes before a build for a GPU: the graph that they leave gives what the one before gave.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "support/noise.h"

namespace tenon::tests {
namespace {

using test::noise;

ir::ValueId input(ir::Graph& graph, const char* name, const Dims& dims) {
  const ir::ValueId value = graph.add_value(name, DType::f32, ir::Shape(dims.begin(), dims.end()));
  graph.inputs.push_back(value);
  return value;
}

ir::ValueId sizes(ir::Graph& graph, const std::vector<int64_t>& values) {
  return graph.add_constant("", Tensor::of<int64_t>(DType::i64, {static_cast<int64_t>(values.size())}, values));
}

void finish(ir::Graph& graph, ir::ValueId output) {
  graph.outputs = {output}, graph.output_names = {"y"};
  graph.tidy();
  ops::infer(graph);
}

size_t count(const ir::Graph& graph, const std::string& op) {
  size_t found = 0;
  for (const ir::Node& node : graph.nodes) found += node.alive && node.op == op;
  return found;
}

void gives_the_same(const ir::Graph& before, const ir::Graph& after) {
  std::vector<Tensor> inputs;
  for (ir::ValueId id : before.inputs) {
    Dims dims;
    for (const ir::Dim& dim : *before.value(id).shape) dims.push_back(dim.value());
    inputs.push_back(noise(dims, static_cast<unsigned>(100 + inputs.size())));
  }
  const Tensor expected = ops::interpret(before, inputs)[0], got = ops::interpret(after, inputs)[0];
  ASSERT_TRUE(expected.dims() == got.dims()) << got.dims().str();
  for (int64_t at = 0; at < got.elements(); ++at)
    ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 1e-4) << "element " << at;
}

struct Transposed {
  int64_t kernel_h, kernel_w, stride_h, stride_w;
  std::vector<int64_t> pads, extra;
};

ir::Graph transposed(const Transposed& one, const ir::Attributes& more = {}, int64_t groups = 1) {
  ir::Graph graph;
  const ir::ValueId x = input(graph, "x", {2, 5, 6, 3 * groups});
  ir::Attributes attributes{{"layout", std::string("NHWC")},
                            {"strides", std::vector<int64_t>{one.stride_h, one.stride_w}},
                            {"pads", one.pads},
                            {"output_padding", one.extra},
                            {"group", groups},
                            {"activation", std::string("relu")}};
  attributes.insert(more.begin(), more.end());
  finish(graph, graph.apply("ConvTranspose",
                            {x, graph.add_constant("", noise({3 * groups, 4, one.kernel_h, one.kernel_w}, 1)),
                             graph.add_constant("", noise({4 * groups}, 2))},
                            attributes, {"up"}, "y"));
  return graph;
}

void becomes_phases(const ir::Graph& before) {
  ir::Graph after = before;
  EXPECT_TRUE(passes::run_pass(after, "subpixel_deconvolution").changed);
  EXPECT_EQ(count(after, "ConvTranspose"), 0u);
  gives_the_same(before, after);
}

TEST(SubpixelDeconvolution, GivesTheSame) {
  for (const Transposed& one : {Transposed{2, 2, 2, 2, {0, 0, 0, 0}, {0, 0}},
                                {4, 4, 2, 2, {1, 1, 1, 1}, {0, 0}},
                                {3, 3, 2, 2, {1, 1, 1, 1}, {1, 1}},
                                {3, 3, 2, 2, {0, 1, 1, 0}, {0, 0}},
                                {3, 3, 1, 1, {1, 1, 1, 1}, {0, 0}},
                                {5, 2, 3, 1, {2, 0, 1, 0}, {0, 0}},
                                {1, 1, 2, 3, {0, 0, 0, 0}, {0, 0}},
                                {6, 3, 4, 2, {1, 0, 1, 0}, {0, 1}}})
    for (const int64_t groups : {1, 5}) becomes_phases(transposed(one, {}, groups));
}

TEST(SubpixelDeconvolution, GivesTheSameDilated) {
  for (const Transposed& one : {Transposed{3, 3, 1, 1, {2, 2, 2, 2}, {0, 0}},
                                {3, 3, 2, 2, {2, 1, 1, 2}, {1, 0}},
                                {2, 3, 2, 1, {0, 0, 0, 0}, {0, 0}},
                                {1, 3, 1, 2, {0, 2, 0, 2}, {0, 1}}})
    for (const int64_t groups : {1, 2})
      becomes_phases(transposed(one, {{"dilations", std::vector<int64_t>{2, 2}}}, groups));
  becomes_phases(transposed({3, 2, 1, 1, {4, 2, 4, 2}, {0, 0}}, {{"dilations", std::vector<int64_t>{4, 3}}}));
}

TEST(SubpixelDeconvolution, LeavesOthersAlone) {
  const Transposed plain{2, 2, 2, 2, {0, 0, 0, 0}, {0, 0}};
  for (const ir::Attributes& more :
       {ir::Attributes{{"dilations", std::vector<int64_t>{4, 4}}}, {{"auto_pad", std::string("SAME_UPPER")}}}) {
    ir::Graph graph = transposed(plain, more);
    EXPECT_FALSE(passes::run_pass(graph, "subpixel_deconvolution").changed);
  }
}

ir::ValueId turned(ir::Graph& graph, ir::ValueId x, const std::vector<int64_t>& perm) {
  return graph.apply("Transpose", {x}, {{"perm", perm}}, {"turn"}, "turned");
}

void becomes_attention(const ir::Graph& before) {
  ir::Graph after = before;
  for (const char* pass : {"transpose_matmuls", "split_axes_again", "cancel_transposes", "fuse_attention"})
    passes::run_pass(after, pass);
  EXPECT_EQ(count(after, "tenon:DotAttention"), 1u) << ir::print(after);
  EXPECT_EQ(count(after, "Softmax"), 0u);
  gives_the_same(before, after);
}

TEST(TurnProducts, MakesAttentionOfValuesByWeights) {
  ir::Graph graph;
  const ir::ValueId q = input(graph, "q", {2, 9, 3, 8}), k = input(graph, "k", {2, 9, 3, 8}),
                    v = input(graph, "v", {2, 9, 3, 4});
  const ir::ValueId scores =
      graph.apply("MatMul", {turned(graph, q, {0, 2, 1, 3}), turned(graph, k, {0, 2, 3, 1})}, {}, {"scores"}, "scores");
  const ir::ValueId weights = graph.apply("Softmax", {scores}, {{"axis", int64_t{-1}}}, {"weights"}, "weights");
  finish(graph, graph.apply("MatMul", {turned(graph, v, {0, 2, 3, 1}), turned(graph, weights, {0, 1, 3, 2})}, {},
                            {"sums"}, "sums"));
  becomes_attention(graph);
}

/// Attention in windows: a bias for each head, and a mask for each window of an image.
ir::Graph windows(int64_t images, const Dims& mask) {
  ir::Graph graph;
  const int64_t all = images * 2;
  const ir::ValueId q = input(graph, "q", {all, 3, 6, 8}), k = input(graph, "k", {all, 3, 8, 6}),
                    v = input(graph, "v", {all, 3, 6, 4});
  ir::ValueId scores = graph.apply("MatMul", {q, k}, {}, {"scores"}, "scores");
  scores = graph.apply("Add", {scores, graph.add_constant("", noise({1, 3, 6, 6}, 7))}, {}, {"bias"}, "biased");
  scores = graph.apply("Reshape", {scores, sizes(graph, {images, 2, 3, 6, 6})}, {}, {"open"}, "open");
  scores = graph.apply("Add", {scores, graph.add_constant("", noise(mask, 8))}, {}, {"mask"}, "masked");
  scores = graph.apply("Reshape", {scores, sizes(graph, {all, 3, 6, 6})}, {}, {"close"}, "close");
  const ir::ValueId weights = graph.apply("Softmax", {scores}, {{"axis", int64_t{-1}}}, {"weights"}, "weights");
  finish(graph, graph.apply("MatMul", {weights, v}, {}, {"sums"}, "sums"));
  return graph;
}

TEST(FuseAttention, JoinsMasksOfWindows) {
  for (const Dims& mask : {Dims{1, 2, 1, 6, 6}, {2, 2, 3, 6, 6}, {1, 1, 1, 6, 6}, {1, 6, 6}})
    becomes_attention(windows(2, mask));
}

}  // namespace
}  // namespace tenon::tests
