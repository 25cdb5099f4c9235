// SPDX-License-Identifier: Apache-2.0
// A graph whose sizes depend on its data, in two: what has concrete sizes, and the rest behind it.
#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "runtime/dynamic.h"
#include "support/net.h"

using namespace tenon;
using test::random_tensor;

namespace {

constexpr const char* parts_text = R"(graph "g"
input %x : f32[1,4,30]
input %s : f32[1,3,30]
const %most : i64[1] = {10}
const %overlap : f32[1] = {0.3}
const %limit : f32[1] = {0.1}
const %first : i64[1] = {0}
%p : f32[1,3,30] = Sigmoid(%s) from ["sigmoid"]
%b : f32[1,30,4] = Transpose(%x) {perm=[0, 2, 1]} from ["turn"]
%rows : i64[M,3] = NonMaxSuppression(%b, %p, %most, %overlap, %limit) from ["nms"]
%a : f32[1,30,4] = Abs(%b) from ["abs"]
%r : i64[1,M,3] = Unsqueeze(%rows, %first) from ["lift"]
%n : f32[1,4,30] = Neg(%x) from ["neg"]
output %rows as "rows"
output %r as "r"
output %b as "b"
output %a as "a"
output %n as "n"
)";

std::vector<Tensor> together(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  const plan::Parts parts = plan::parts_of(graph);
  ir::verify(parts.head), ir::verify(parts.tail);
  EXPECT_TRUE(plan::is_static(parts.head));
  std::vector<Tensor> all = inputs;
  for (Tensor& one : ops::interpret(parts.head, inputs)) all.push_back(std::move(one));
  return ops::interpret(parts.tail, all);
}

}  // namespace

TEST(Parts, TogetherGiveWhatTheWholeGives) {
  ir::Graph graph = ir::parse(parts_text);
  graph.tidy();
  ops::infer(graph);
  const std::vector<Tensor> inputs{random_tensor({1, 4, 30}, 1), random_tensor({1, 3, 30}, 2)};
  const std::vector<Tensor> expected = ops::interpret(graph, inputs);
  for (const bool bounded : {false, true}) {
    if (bounded) passes::run_pass(graph, "bound_nms");
    const std::vector<Tensor> got = together(graph, inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t at = 0; at < got.size(); ++at) {
      ASSERT_EQ(got[at].dims(), expected[at].dims()) << at;
      EXPECT_TRUE(test::bytes_of(got[at]) == test::bytes_of(expected[at])) << at;
    }
    const plan::Parts parts = plan::parts_of(graph);
    EXPECT_EQ(parts.head.nodes.size(), bounded ? 5u : 4u);
    EXPECT_EQ(parts.tail.nodes.size(), 2u);
  }
}

TEST(Parts, AStaticGraphIsPlannedAsAWhole) {
  ir::Graph graph =
      ir::parse("graph \"g\"\ninput %x : f32[2,3]\n%y : f32[2,3] = Neg(%x) from [\"neg\"]\noutput %y as \"y\"\n");
  ops::infer(graph);
  EXPECT_EQ(plan::planned_part(graph).nodes.size(), 1u);
  EXPECT_EQ(plan::parts_of(graph).tail.nodes.size(), 0u);
}

namespace {

std::vector<Tensor> node_by_node(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  plan::Plan plan;
  plan.graph = graph;
  ThreadPool threads(2);
  runtime::DynamicProgram program(graph, plan, threads, std::make_shared<backends::WeightCache>());
  program.run(inputs);
  return program.run(inputs);
}

void expect_as_interpreted(const std::string& text, const std::vector<Tensor>& inputs) {
  ir::Graph graph = ir::parse(text);
  graph.tidy();
  ops::infer(graph);
  const std::vector<Tensor> expected = ops::interpret(graph, inputs), got = node_by_node(graph, inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t at = 0; at < got.size(); ++at) {
    ASSERT_EQ(got[at].dims(), expected[at].dims()) << at;
    EXPECT_TRUE(test::bytes_of(got[at]) == test::bytes_of(expected[at])) << at;
  }
}

// Sizes depend on the mask; %kept stands in for what a detector scatters into.
const std::string scattered = R"(graph "g"
input %x : f32[40,600]
input %mask : bool[40]
input %u : f32[2,600]
const %axis : i64[1] = {1}
const %shape : i64[2] = {-1, 300}
const %at : i64[2,1] = {1, 3}
%all : i64[1,N] = NonZero(%mask)
%rows : i64[N] = Squeeze(%all)
%kept : f32[N,600] = Gather(%x, %rows) {axis=0}
)";

}  // namespace

TEST(NodeByNode, WhatIsReadForTheLastTimeIsUpdatedInPlace) {
  std::vector<Tensor> inputs{random_tensor({40, 600}, 1), Tensor(DType::boolean, {40}), random_tensor({2, 600}, 2)};
  for (int at = 0; at < 40; ++at) inputs[1].data<bool>()[at] = at % 3 != 0;
  const std::string update = "%y : f32[N,600] = ScatterND(%kept, %at, %u)\noutput %y as \"y\"\n";
  expect_as_interpreted(scattered + update, inputs);
  // Still read behind it, as itself and in another shape, or the caller's: not in its place.
  const std::string view = "%v : f32 = Reshape(%kept, %shape)\n";
  expect_as_interpreted(scattered + view + update + "%z : f32 = Neg(%v)\noutput %z as \"z\"\n", inputs);
  expect_as_interpreted(scattered + update + "%z : f32 = Neg(%kept)\noutput %z as \"z\"\n", inputs);
  expect_as_interpreted(scattered + view + update + "output %v as \"v\"\n", inputs);
  expect_as_interpreted(scattered + "%y : f32[40,600] = ScatterND(%x, %at, %u)\noutput %y as \"y\"\n", inputs);
  EXPECT_TRUE(test::bytes_of(inputs[0]) == test::bytes_of(random_tensor({40, 600}, 1)));
}
