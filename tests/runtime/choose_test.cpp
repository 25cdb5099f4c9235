// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/op.h"
#include "plan/plan.h"
#include "support/net.h"

using namespace tenon;

namespace {

ir::Graph convolution(int64_t channels) {
  const std::string c = std::to_string(channels);
  ir::Graph graph = ir::parse("graph \"g\"\ninput %x : f32[1,12,12," + c + "]\nconst %w : f32[16," + c +
                                  ",3,3] = @0\n"
                                  "%y : f32[1,12,12,16] = Conv(%x, %w) {layout=\"NHWC\", pads=[1, 1, 1, 1]}\n"
                                  "output %y as \"y\"\n",
                              {test::random_tensor({16, channels, 3, 3}, 1)});
  ops::infer(graph);
  return graph;
}

std::string chosen(const ir::Graph& graph, int threads, const plan::Records& records) {
  return plan::choose(plan::problem_of(graph, 0, plan::lay_out(graph), threads, plan::Plan()), records).name;
}

std::string key(const ir::Graph& graph, int threads, bool strict) {
  plan::Plan plan;
  plan.goal.strict = strict;
  return backends::signature(plan::problem_of(graph, 0, plan::lay_out(graph), threads, plan));
}

}  // namespace

/// A kernel of another number of threads gives the same bits as there; another kernel might not.
TEST(Choose, KeepsTheKernelForAnyNumberOfThreads) {
  const ir::Graph graph = convolution(16);
  const plan::Records records{{key(graph, 2, false), {"direct", 5}}};
  ASSERT_NE(chosen(graph, 2, {}), "direct");
  for (int threads : {1, 2, 3, 12}) EXPECT_EQ(chosen(graph, threads, records), "direct");
  EXPECT_NE(chosen(convolution(32), 2, records), "direct");
}

TEST(Choose, PrefersTheRecordOfItsNumberOfThreads) {
  const ir::Graph graph = convolution(16);
  const plan::Records records{{key(graph, 1, false), {"winograd2", 5}}, {key(graph, 2, false), {"direct", 5}}};
  EXPECT_EQ(chosen(graph, 2, records), "direct");
  EXPECT_EQ(chosen(graph, 1, records), "winograd2");
}

TEST(Choose, TellsStrictArithmeticApart) {
  const ir::Graph graph = convolution(16);
  EXPECT_TRUE(backends::same_but_threads(key(graph, 1, true), key(graph, 16, true)));
  EXPECT_FALSE(backends::same_but_threads(key(graph, 1, true), key(graph, 1, false)));
}
