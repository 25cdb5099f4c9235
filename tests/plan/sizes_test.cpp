// SPDX-License-Identifier: Apache-2.0
#include "plan/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "engine/engine.h"
#include "ir/dim_program.h"
#include "ops/op.h"
#include "runtime/program.h"
#include "support/net.h"

/// Sizes that are evaluated are those that inference gives, and runs with them give the same bits.
namespace tenon {
namespace {

using namespace test;

TEST(DimProgram, TellsWhetherSymbolsAreTakenAway) {
  ir::DimProgram program(ir::DimProgram::Symbols::any);
  for (const char* text : {"N", "2*N+1", "(N-1)//2", "N*M", "(3*N+(M)//2)//4"})
    EXPECT_TRUE(program.rises(program.add(*ir::Dim::parse(text)))) << text;
  for (const char* text : {"-N", "4-N", "(-N)//4", "N-M", "2*N-(M)//2"})
    EXPECT_FALSE(program.rises(program.add(*ir::Dim::parse(text)))) << text;
}

TEST(DimProgram, GivesTheValuesOfItsText) {
  ir::DimProgram program;
  const int n = program.symbol("N"), h = program.symbol("H");
  EXPECT_EQ(n, 0);
  EXPECT_EQ(h, 1);
  const std::pair<const char*, int64_t> cases[] = {
      {"7", 7},        {"N", 3},        {"2*N+1", 7},           {"N*H", 33},           {"H-N", 8}, {"-2*N+H", 5},
      {"(H+1)//4", 3}, {"(-H)//4", -3}, {"N*((H+1)//4)//2", 3}, {"((H+1)//4)//2+N", 4}};
  std::vector<int> places;
  for (const auto& [text, value] : cases) {
    const auto dim = ir::Dim::parse(text);
    places.push_back(dim ? program.add(*dim) : ir::DimProgram::none);
  }
  std::vector<int64_t> values;
  ASSERT_TRUE(program.evaluate(std::vector<int64_t>{3, 11}, values));
  for (size_t at = 0; at < places.size(); ++at)
    if (places[at] != ir::DimProgram::none) {
      EXPECT_EQ(values[static_cast<size_t>(places[at])], cases[at].second) << cases[at].first;
    }
  EXPECT_EQ(program.add(*ir::Dim::parse("N+M")), ir::DimProgram::none);
  ASSERT_FALSE(program.evaluate(std::vector<int64_t>{INT64_MAX, 2}, values)) << "beyond 64 bits";
}

/// A block by its text, its inputs at these sizes; whether it can be evaluated.
struct Evaluated {
  explicit Evaluated(const std::string& text, const Shapes& best,
                     const std::vector<Tensor>& constants = {random_tensor({4, 3, 3, 3}, 1)}) {
    plan.graph = ir::parse(text, constants);
    ops::infer(plan.graph);
    plan.shapes = best;
    const plan::Planned part = plan::planned(plan::concretise(plan.graph, best), plan);
    const plan::Steps steps = plan::make_steps(plan, *part.graph);
    block = plan::block_of(plan, steps, *part.graph, false);
    sizes = plan::Sizes::of(plan.graph, block.graph, block.layout);
  }
  bool holds(const Shapes& shapes) {
    decided.clear();
    return sizes && sizes->evaluate(shapes, dims, decided);
  }
  /// As inference has them.
  void expect_inferred(const Shapes& shapes) {
    ASSERT_TRUE(holds(shapes));
    const ir::Graph graph = plan::concretise(plan.graph, shapes);
    const plan::Layout layout = plan::lay_out(graph);
    for (size_t id = 0; id < dims.size(); ++id)
      for (size_t other = 0; other < graph.values.size(); ++other)
        if (graph.values[other].name == block.graph->values[id].name) {
          EXPECT_EQ(dims[id].str(), layout.places[other].dims.str()) << graph.values[other].name;
        }
  }

  plan::Plan plan;
  plan::Block block;
  std::unique_ptr<const plan::Sizes> sizes;
  std::vector<Dims> dims;
  plan::Decided decided;
};

TEST(Sizes, AreThoseOfInference) {
  Evaluated net(R"(graph "g"
input %x : f32[N,3,H,W]
const %w : f32[4,3,3,3] = @0
%a : ? = Conv(%x, %w) {pads=[1,1,1,1], strides=[2,2]} from ["c"]
%b : ? = MaxPool(%a) {kernel_shape=[2,2], strides=[2,2]} from ["m"]
%c : ? = Relu(%b) from ["r"]
%d : ? = Concat(%b, %c) {axis=1} from ["k"]
%y : ? = ReduceMean(%d) {keepdims=0} from ["p"]
output %y as "y"
)",
                {{"x", {1, 3, 16, 16}}});
  ASSERT_TRUE(net.sizes) << "made of the batch, height and width";
  for (const auto& [n, h, w] : {std::tuple(1, 16, 16), std::tuple(5, 17, 40), std::tuple(2, 31, 7)})
    net.expect_inferred({{"x", {n, 3, h, w}}});
  EXPECT_FALSE(net.holds({{"x", {1, 4, 16, 16}}})) << "the weights are for three channels";
  EXPECT_FALSE(net.holds({{"x", {1, 3, 2, 2}}})) << "nothing is left for the pool";
  EXPECT_FALSE(net.holds({{"x", {1, 3, 16}}}));
  EXPECT_FALSE(net.holds({{"z", {1, 3, 16, 16}}}));
}

TEST(Sizes, OfPoolsAndSplitsAreThoseOfInference) {
  Evaluated net(R"(graph "g"
input %x : f32[N,H,W,3]
const %widths : i64[2] = {1, 2}
%m : ? = MaxPool(%x) {kernel_shape=[3,2], strides=[2,2], pads=[1,0,0,1], layout="NHWC"} from ["m"]
%s : ?, %t : ? = Split(%m, %widths) {axis=-1} from ["s"]
%g : ? = GlobalAveragePool(%t) {layout="NHWC"} from ["g"]
output %s as "s"
output %g as "g"
)",
                {{"x", {1, 16, 16, 3}}}, {});
  ASSERT_TRUE(net.sizes);
  for (const auto& [n, h, w] : {std::tuple(1, 16, 16), std::tuple(5, 17, 40), std::tuple(2, 31, 7)})
    net.expect_inferred({{"x", {n, h, w, 3}}});
  EXPECT_FALSE(net.holds({{"x", {1, 16, 16, 4}}})) << "the parts are three";
  EXPECT_FALSE(net.holds({{"x", {1, 1, 16, 3}}})) << "nothing is left for the pool";
}

TEST(Sizes, OfAPairOfConvolutionsAreThoseOfInference) {
  Evaluated net(R"(graph "g"
input %x : f32[N,H,W,8]
input %more : f32[N,K,W,16]
const %v : f32[16,8,1,1] = @0
const %w : f32[16,1,3,3] = @1
%y : ? = tenon:ConvPair(%x, %v, _, %w, _, _, _, %more) {"expand.activation"="relu", "depthwise.group"=16,
  "depthwise.pads"=[1,0,1,2], "depthwise.residual"="before"} from ["p"]
output %y as "y"
)",
                {{"x", {1, 5, 6, 8}}, {"more", {1, 5, 6, 16}}},
                {random_tensor({16, 8, 1, 1}, 1), random_tensor({16, 1, 3, 3}, 2)});
  ASSERT_TRUE(net.sizes);
  net.expect_inferred({{"x", {3, 9, 4, 8}}, {"more", {3, 9, 4, 16}}});
  EXPECT_FALSE(net.holds({{"x", {3, 9, 4, 8}}, {"more", {3, 8, 4, 16}}})) << "what is added has other rows";
  EXPECT_FALSE(net.holds({{"x", {3, 9, 4, 7}}, {"more", {3, 9, 4, 16}}})) << "the weights are for eight channels";
}

TEST(Sizes, OfProductsAndNormalFormsAreThoseOfInference) {
  Evaluated net(R"(graph "g"
input %x : f32[N,L,4]
input %more : f32[N,K,6]
const %w : f32[4,6] = @0
const %scale : f32[6] = @1
const %bias : f32[1,6] = @2
%p : ? = MatMul(%x, %w, _, %more) {residual="before"} from ["p"]
%n : ? = LayerNormalization(%p, %scale, %bias) from ["n"]
%y : ? = Softmax(%n) {axis=-1} from ["s"]
output %y as "y"
)",
                {{"x", {1, 5, 4}}, {"more", {1, 5, 6}}},
                {random_tensor({4, 6}, 1), random_tensor({6}, 2), random_tensor({1, 6}, 3)});
  ASSERT_TRUE(net.sizes);
  net.expect_inferred({{"x", {3, 9, 4}}, {"more", {3, 9, 6}}});
  EXPECT_FALSE(net.holds({{"x", {3, 9, 4}}, {"more", {3, 8, 6}}})) << "what is added has other rows";
  EXPECT_FALSE(net.holds({{"x", {3, 9, 5}}, {"more", {3, 9, 6}}})) << "the matrix has four rows";
  Evaluated open(R"(graph "g"
input %x : f32[N,C]
const %scale : f32[4] = @0
%y : ? = LayerNormalization(%x, %scale) from ["n"]
output %y as "y"
)",
                 {{"x", {2, 4}}}, {random_tensor({4}, 2)});
  EXPECT_TRUE(open.holds({{"x", {3, 4}}}));
  EXPECT_FALSE(open.holds({{"x", {3, 5}}})) << "the scale is of four";
}

/// As layers of a dense block do: each reads all results before it.
TEST(Layout, LetsConcatenationsOfTheSameValuesShareOnePlace) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[1,2,2,4]
%a : f32[1,2,2,4] = Relu(%x)
%b : f32[1,2,2,4] = Sigmoid(%a)
%ba : f32[1,2,2,8] = Concat(%b, %a) {axis=-1}
%ab : f32[1,2,2,8] = Concat(%a, %b) {axis=-1}
%c : f32[1,2,2,8] = Tanh(%ab)
%abc : f32[1,2,2,16] = Concat(%a, %b, %c) {axis=-1}
%y : f32[1,2,2,16] = Relu(%abc)
output %y as "y"
output %ba as "ba"
)");
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph);
  int run = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) run += graph.nodes[id].op == "Concat" && layout.runs[id];
  EXPECT_EQ(run, 1) << "the one in another order";
  const auto place = [&](const char* name) {
    for (size_t id = 0; id < graph.values.size(); ++id)
      if (graph.values[id].name == name) return layout.places[id];
    return plan::Place{};
  };
  EXPECT_EQ(place("ab").storage, place("abc").storage);
  EXPECT_EQ(place("ab").strides.str(), place("abc").strides.str());
}

/// As the patches of a vision transformer do: the axis of one image has another stride in the whole than in the part.
TEST(Layout, WritesAReshapedPartOfAConcatInPlace) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[1,2,2,4]
input %token : f32[1,1,4]
const %sizes : i64[3] = {1, 4, 4}
%a : f32[1,2,2,4] = Relu(%x)
%b : f32[1,4,4] = Reshape(%a, %sizes)
%all : f32[1,5,4] = Concat(%token, %b) {axis=1}
%y : f32[1,5,4] = Relu(%all)
output %y as "y"
)");
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph);
  for (size_t id = 0; id < graph.nodes.size(); ++id) EXPECT_TRUE(graph.nodes[id].op != "Reshape" || !layout.runs[id]);
}

/// Kernels of the CPU write rows whose elements are neighbours: stacked along a last axis they would not be.
TEST(Layout, KeepsRowsThatAreStackedWhole) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[1,2,4]
const %sizes : i64[4] = {1, 2, 4, 1}
%a : f32[1,2,4] = Relu(%x)
%b : f32[1,2,4] = Sigmoid(%x)
%r : f32[1,2,4,1] = Reshape(%a, %sizes)
%s : f32[1,2,4,1] = Reshape(%b, %sizes)
%y : f32[1,2,4,2] = Concat(%r, %s) {axis=3}
output %y as "y"
)");
  ops::infer(graph);
  for (const bool host_memory : {false, true}) {
    const plan::Layout layout = plan::lay_out(graph, false, host_memory);
    for (size_t id = 0; id < graph.values.size(); ++id)
      if (graph.values[id].name == "a" || graph.values[id].name == "b") {
        EXPECT_EQ(layout.places[id].strides.back(), host_memory ? 1 : 2);
      }
  }
}

/// Kernels of devices read rows of a batch that lie in any order; by one matrix for all they want them as they are.
TEST(Layout, LetsProductsByConstantsOfABatchReadTransposedRows) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[2,3,4,2]
const %each : f32[4,2,1] = {1, 2, 3, 4, 5, 6, 7, 8}
const %all : f32[2,1] = {1, 2}
%a : f32[2,3,4,2] = Relu(%x)
%t : f32[2,4,3,2] = Transpose(%a) {perm=[0, 2, 1, 3]}
%y : f32[2,4,3,1] = MatMul(%t, %each)
%u : f32[2,4,3,2] = Transpose(%a) {perm=[0, 2, 1, 3]}
%z : f32[2,4,3,1] = MatMul(%u, %all)
output %y as "y"
output %z as "z"
)");
  ops::infer(graph);
  const auto copies = [&](bool host_memory) {
    const plan::Layout layout = plan::lay_out(graph, false, host_memory);
    std::string copied;
    for (size_t id = 0; id < graph.nodes.size(); ++id)
      if (graph.nodes[id].op == "Transpose" && layout.runs[id]) copied += graph.value(graph.nodes[id].outputs[0]).name;
    return copied;
  };
  EXPECT_EQ(copies(false), "u");
  EXPECT_EQ(copies(true), "tu");
}

TEST(Sizes, ThatMustAgreeAreChecked) {
  Evaluated sum(R"(graph "g"
input %a : f32[N,4]
input %b : f32[N,4]
%y : f32[N,4] = Add(%a, %b) from ["s"]
output %y as "y"
)",
                {{"a", {3, 4}}, {"b", {3, 4}}});
  ASSERT_TRUE(sum.sizes);
  EXPECT_TRUE(sum.holds({{"a", {7, 4}}, {"b", {7, 4}}}));
  EXPECT_FALSE(sum.holds({{"a", {7, 4}}, {"b", {6, 4}}}));
  Evaluated open(R"(graph "g"
input %a : f32[N,4]
input %b : f32[M,4]
%y : ? = MatMul(%a, %b) from ["p"]
output %y as "y"
)",
                 {{"a", {3, 4}}, {"b", {4, 4}}});
  EXPECT_TRUE(!open.sizes || !open.holds({{"a", {7, 4}}, {"b", {5, 4}}})) << "rows of one are columns of the other";
}

class NewSizes : public ::testing::Test {
 protected:
  /// Runs at these sizes of a session made for others, and of an engine that knows no others.
  void expect_same_bits(const std::string& net, const std::vector<Dims>& sizes) {
    BuildOptions options = quick_build();
    options.shapes = {{"x", {sizes[0].begin(), sizes[0].end()}}};
    const Engine engine = build_net(folder_, net, options);
    Session session = engine.session(2);
    for (const Dims& dims : sizes) {
      const Tensor x = random_tensor(dims, 3);
      const std::string got = bytes_of(session.run({{"x", x}})[0]);
      Session own = engine.session(2, {{"x", {dims.begin(), dims.end()}}});
      EXPECT_EQ(got, bytes_of(own.run({{"x", x}})[0])) << dims.str();
      const Shapes shapes{{"x", {dims.begin(), dims.end()}}};
      const Tensor expected = ops::interpret(plan::concretise(plan_of(engine).graph, shapes), {x})[0];
      ASSERT_EQ(got.size(), expected.bytes());
      const auto* values = reinterpret_cast<const float*>(got.data());
      for (int64_t at = 0; at < expected.elements(); ++at)
        ASSERT_NEAR(values[at], expected.data<float>()[at], 1e-4) << dims.str() << " at " << at;
    }
  }
  Folder folder_;
};

TEST_F(NewSizes, OfABatchRun) { expect_same_bits(small_net(), {{2, 3, 8, 8}, {7, 3, 8, 8}, {1, 3, 8, 8}}); }

TEST_F(NewSizes, OfAImageRun) {
  const std::string pads = integers("pads", {1, 1, 1, 1});
  const std::string net = model(
      input("x", {-1, 3, -2, -3}) + random_weights("w1", {8, 3, 3, 3}, 1) + random_weights("w2", {8, 8, 1, 1}, 2) +
      random_weights("w3", {8, 1, 3, 3}, 3) + random_weights("w4", {8, 8, 3, 3}, 4) +
      node("a", "Conv", {"x", "w1"}, {"a"}, pads) + node("b", "Relu", {"a"}, {"b"}) +
      node("c", "Conv", {"b", "w2"}, {"c"}) + node("d", "Conv", {"c", "w3"}, {"d"}, pads + integer("group", 8)) +
      node("e", "Conv", {"d", "w4"}, {"e"}, pads) + node("f", "Concat", {"e", "b"}, {"f"}, integer("axis", 1)) +
      node("shape", "Shape", {"f"}, {"s"}) + tensor("zero", i64, {1}, raw<int64_t>({0})) +
      tensor("rest", i64, {1}, raw<int64_t>({-1})) + tensor("one", i64, {1}, raw<int64_t>({1})) +
      node("n", "Slice", {"s", "zero", "one"}, {"n"}) + node("t", "Concat", {"n", "rest"}, {"t"}, integer("axis", 0)) +
      node("g", "Reshape", {"f", "t"}, {"g"}) + node("h", "Softmax", {"g"}, {"y"}, integer("axis", 1)) + output("y"));
  expect_same_bits(net, {{1, 3, 8, 8}, {2, 3, 9, 12}, {3, 3, 16, 5}, {1, 3, 40, 33}});
}

/// Steps that are made from those of other sizes, and a product whose kernel takes one row alone.
TEST_F(NewSizes, OfPoolsAndProductsRun) {
  const std::string window = integers("kernel_shape", {3, 3}) + integers("strides", {2, 2});
  const std::string net = model(
      input("x", {-1, 3, -2, -3}) + random_weights("w1", {32, 3, 3, 3}, 1) + random_weights("w2", {32, 32}, 2) +
      random_weights("w3", {32, 32, 1, 1}, 3) + node("a", "Conv", {"x", "w1"}, {"a"}, integers("pads", {1, 1, 1, 1})) +
      node("b", "MaxPool", {"a"}, {"b"}, window + text("auto_pad", "SAME_UPPER")) +
      node("c", "AveragePool", {"b"}, {"c"}, window + integers("pads", {1, 0, 0, 1})) +
      node("d", "GlobalAveragePool", {"c"}, {"d"}) + node("e", "Conv", {"d", "w3"}, {"e"}) +
      node("f", "Sigmoid", {"e"}, {"f"}) + node("g", "Mul", {"c", "f"}, {"g"}) +
      node("h", "GlobalMaxPool", {"g"}, {"h"}) + node("i", "Flatten", {"h"}, {"i"}, integer("axis", 1)) +
      node("j", "Gemm", {"i", "w2"}, {"y"}) + output("y"));
  expect_same_bits(net, {{1, 3, 9, 9}, {2, 3, 9, 9}, {3, 3, 12, 20}, {1, 3, 17, 8}, {5, 3, 8, 8}});
}

TEST_F(NewSizes, MayBeBoundBySeveralThreads) {
  BuildOptions options = quick_build();
  options.shapes = {{"x", {2, 3, 8, 8}}};
  const Engine engine = build_net(folder_, small_net(), options);
  const auto input = [](int64_t batch) { return random_tensor({batch, 3, 8, 8}, 3); };
  std::vector<Tensor> expected;
  for (int64_t batch = 1; batch <= 6; ++batch)
    expected.push_back(
        ops::interpret(plan::concretise(plan_of(engine).graph, {{"x", {batch, 3, 8, 8}}}), {input(batch)})[0]);
  const auto differs = [](const Tensor& got, const Tensor& wanted) {
    const std::span<const float> a = got.values<float>(), b = wanted.values<float>();
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(),
                       [](float x, float y) { return std::fabs(x - y) < 1e-4; });
  };
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t at = 0; at < 4; ++at)
    threads.emplace_back([&, at] {
      Session session = engine.session(1);
      for (int64_t turn = 0; turn < 60; ++turn) {
        const int64_t batch = 1 + (turn * (at + 1)) % 6;
        wrong += differs(session.run({{"x", input(batch)}})[0], expected[static_cast<size_t>(batch - 1)]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(NewSizes, TellTheTacticThatRuns) {
  const std::string net = model(input("x", {-1, 32}) + random_weights("w", {32, 32}, 2) +
                                node("p", "MatMul", {"x", "w"}, {"y"}) + output("y"));
  BuildOptions options = quick_build();
  options.shapes = {{"x", {1, 32}}};
  plan::Plan plan = plan_of(build_net(folder_, net, options));
  plan.steps[0].steps.back().tactic = "gemv";
  plan::Shared shared;
  ThreadPool threads(1);
  const runtime::Program best(plan, {{"x", {1, 32}}}, threads, &shared);
  for (const int64_t rows : {1, 2, 3, 1}) {
    runtime::Program program(plan, {{"x", {rows, 32}}}, threads, &shared);
    EXPECT_EQ(program.profile(std::vector<Tensor>{random_tensor({rows, 32}, 1)}, 1).back().tactic,
              rows == 1 ? "gemv" : "direct");
  }
}

}  // namespace
}  // namespace tenon
