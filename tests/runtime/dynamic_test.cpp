// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/error.h>

#include "ops/op.h"
#include "plan/plan.h"
#include "runtime/dynamic.h"
#include "support/net.h"

using namespace tenon;
using test::random_tensor;

namespace {

constexpr const char* dynamic_text = R"(graph "g"
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
  ir::Graph graph = ir::parse(dynamic_text, {random_tensor({16, 8, 3, 3}, 1)});
  graph.tidy();
  ops::infer(graph);
  ThreadPool thread_pool(2);
  runtime::DynamicProgram program(graph, plan, thread_pool, std::make_shared<backends::WeightCache>());
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

/// On every thread of the pool, which runs the next as before.
TEST(Dynamic, NamesTheNodeWhoseIndicesAreOutside) {
  plan::Plan plan;
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[N]
input %by : i64[]
%n : i64[1,M] = NonZero(%x)
%i : i64[1,M] = Add(%n, %by)
%y : f32[1,M] = Gather(%x, %i) from ["picked"]
output %y as "y"
)");
  graph.tidy();
  ops::infer(graph);
  ThreadPool thread_pool(2);
  runtime::DynamicProgram program(graph, plan, thread_pool, std::make_shared<backends::WeightCache>());
  const Tensor x = random_tensor({20000}, 1);
  const auto run = [&](int64_t by) {
    return program.run(std::vector<Tensor>{x, Tensor::of<int64_t>(DType::i64, {}, std::vector<int64_t>{by})});
  };
  EXPECT_EQ(run(0)[0].elements(), x.elements());
  try {
    run(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("picked"), std::string::npos) << error.what();
    EXPECT_EQ(error.why(), "index 20000 is outside an axis of size 20000");
  }
  EXPECT_EQ(run(0)[0].elements(), x.elements());
}

namespace {

/// A loop whose values grow from round to round, around a product by weights.
constexpr const char* growing = R"(graph "g"
input %n : i64[]
input %x : f32[1,64]
const %on : bool[] = {1}
const %none : f32[0,64] = {}
const %w : f32[64,64] = @0
%y : f32[1,64], %all : f32[R,64] = Loop(%n, %on, %x, %none) {body={graph "body"
input %i : i64[]
input %c : bool[]
input %h : f32[1,64]
input %rows : f32[R,64]
const %w : f32[64,64] = @0
%p : f32[1,64] = MatMul(%h, %w) from ["product"]
%t : f32[1,64] = Tanh(%p) from ["tanh"]
%more : f32[S,64] = Concat(%rows, %t) {axis=0} from ["concat"]
output %c as "c"
output %t as "t"
output %more as "more"
}, captures=0} from ["loop"]
output %y as "y"
output %all as "all"
)";

}  // namespace

/// Bodies run on kernels, not on the reference alone, and are timed by their nodes.
TEST(Dynamic, RunsBodiesOnKernels) {
  plan::Plan plan;
  ir::Graph graph = ir::parse(growing, {random_tensor({64, 64}, 1)});
  graph.tidy();
  ops::infer(graph);
  ThreadPool thread_pool(2);
  runtime::DynamicProgram program(graph, plan, thread_pool, std::make_shared<backends::WeightCache>());
  for (const int64_t rounds : {0, 1, 5, 9}) {
    const Tensor n = Tensor::of<int64_t>(DType::i64, {}, std::vector<int64_t>{rounds}), x = random_tensor({1, 64}, 3);
    const std::vector<Tensor> got = program.run(std::vector<Tensor>{n, x}), expected = ops::interpret(graph, {n, x});
    ASSERT_EQ(got.size(), 2u);
    for (size_t at = 0; at < got.size(); ++at) {
      ASSERT_EQ(got[at].dims(), expected[at].dims()) << rounds;
      for (int64_t element = 0; element < got[at].elements(); ++element)
        ASSERT_NEAR(got[at].data<float>()[element], expected[at].data<float>()[element], 1e-5) << rounds;
    }
  }
  const Tensor n = Tensor::of<int64_t>(DType::i64, {}, std::vector<int64_t>{6});
  const auto layers = program.profile(std::vector<Tensor>{n, random_tensor({1, 64}, 2)}, 3);
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0].name, "Loop loop");
  EXPECT_EQ(layers[1].inside, "loop/");
  EXPECT_EQ(layers[1].name, "MatMul product");
  EXPECT_NE(layers[1].tactic, "ref");
  EXPECT_EQ(layers[1].rounds, 6);
}
