// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/op.h"
#include "plan/plan.h"
#include "runtime/dynamic.h"
#include "support/net.h"

using namespace tenon;
using test::random_tensor;

namespace {

constexpr const char* text = R"(graph "g"
input %x : f32[1,H,W,8]
const %w : f32[16,8,3,3] = @0
const %k : i64[1] = {12}
const %all : i64[1] = {-1}
%c : f32[1,H,W,16] = Conv(%x, %w) {layout="NHWC", pads=[1, 1, 1, 1]}
%r : f32[1,H,W,16] = Relu(%c)
%f : f32[N] = Reshape(%r, %all)
%n : i64[1,M] = NonZero(%f)
%v : f32[1,M] = Gather(%f, %n)
%s : f32[1,M] = Sigmoid(%v)
output %s as "s"
output %n as "n"
)";

}  // namespace

/// Sizes change from run to run, and so does the number of results; each run equals the reference kernels'.
TEST(Dynamic, GivesWhatTheReferenceGivesAtEverySize) {
  plan::Plan plan;
  ir::Graph graph = ir::parse(text, {random_tensor({16, 8, 3, 3}, 1)});
  graph.tidy();
  ops::infer(graph);
  ThreadPool thread_pool(2);
  runtime::DynamicProgram program(graph, plan, thread_pool);
  for (int64_t size : {5, 9, 9, 4}) {
    const Tensor x = random_tensor({1, size, size + 1, 8}, static_cast<unsigned>(size));
    const std::vector<Tensor> got = program.run(std::vector<Tensor>{x}), expected = ops::interpret(graph, {x});
    ASSERT_EQ(got.size(), 2u);
    ASSERT_EQ(got[1].dims(), expected[1].dims());
    for (int64_t at = 0; at < got[1].elements(); ++at)
      ASSERT_EQ(got[1].data<int64_t>()[at], expected[1].data<int64_t>()[at]);
    for (int64_t at = 0; at < got[0].elements(); ++at)
      ASSERT_NEAR(got[0].data<float>()[at], expected[0].data<float>()[at], 1e-4);
  }
  const auto layers = program.profile(std::vector<Tensor>{random_tensor({1, 4, 5, 8}, 2)}, 1);
  ASSERT_EQ(layers.size(), 6u);
  EXPECT_NE(layers[0].tactic, "ref");
}
