// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backends/backend.h"
#include "compile/tune.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "plan/plan.h"
#include "runtime/program.h"
#include "support/net.h"

using namespace tenon;
using test::random_tensor;

namespace {

/// A pointwise convolution and a depthwise one behind it: `middle` channels between, `attributes` of the second.
ir::Graph expansion(const std::string& image, int64_t middle, int64_t window, const std::string& attributes) {
  const std::string m = std::to_string(middle), k = std::to_string(window);
  const std::string text =
      "graph \"g\"\ninput %x : f32[" + image + ",16]\n" + "const %w : f32[" + m + ",16,1,1] = @0\nconst %b : f32[" + m +
      "] = @1\n" + "const %d : f32[" + m + ",1," + k + "," + k + "] = @2\n" +
      "%e : f32[N,P,Q,M] = Conv(%x, %w, %b) {activation=\"clip\", alpha=0.0, beta=6.0, layout=\"NHWC\"}\n" +
      "%y : f32[N,R,S,M] = Conv(%e, %d, %b) {group=" + m + ", layout=\"NHWC\", " + attributes + "}\n" +
      "output %y as \"y\"\n";
  ir::Graph graph = ir::parse(text, {random_tensor({middle, 16, 1, 1}, 1), random_tensor({middle}, 2),
                                     random_tensor({middle, 1, window, window}, 3)});
  ops::infer(graph);
  return graph;
}

/// The ops of a graph once its groups are taken together, each with a space behind it.
std::string ops_grouped(ir::Graph graph) {
  ops::infer(graph);
  graph = passes::with_groups(graph, passes::groups_of(graph, backends::host().groups()));
  std::string ops;
  for (const ir::Node& node : graph.nodes) ops += node.op + " ";
  return ops;
}

std::vector<float> run(const plan::Plan& plan, int threads, const Tensor& x, std::string& tactic) {
  ThreadPool thread_pool(threads);
  runtime::Program program(plan, {}, thread_pool);
  std::vector<Tensor> outputs(1);
  for (int turn = 0; turn < 2; ++turn) program.run(std::vector<Tensor>{x}, outputs);
  const auto values = outputs[0].values<float>();
  std::vector<float> result(values.begin(), values.end());
  tactic = program.profile(std::vector<Tensor>{x}, 1).back().tactic;
  return result;
}

/// What is measured of the whole graph as a group.
void record(plan::Plan& plan, const std::string& tactic) {
  const auto groups = passes::groups_of(plan.graph, backends::host().groups());
  const ir::Graph whole = passes::with_groups(plan.graph, groups);
  ASSERT_EQ(whole.nodes.size(), 1u);
  const plan::Layout layout = plan::lay_out(whole);
  plan.records = {{backends::signature(plan::problem_of(whole, 0, layout, plan.threads, plan)), {tactic, 1}}};
}

/// The two as one step give the bits that they give apart, for any number of workers.
void expect_same_bits(const std::string& image, const Dims& dims, int64_t middle, int64_t window,
                      const std::string& attributes) {
  SCOPED_TRACE(image + " " + attributes);
  plan::Plan apart, joined;
  apart.graph = joined.graph = expansion(image, middle, window, attributes);
  const Tensor x = random_tensor(dims, 4);
  std::string tactic;
  const std::vector<float> expected = run(apart, 1, x, tactic);
  ASSERT_TRUE(tactic.starts_with("depthwise"));
  for (int threads : {1, 2, 3}) {
    joined.threads = threads;
    record(joined, "strips");
    const std::vector<float> got = run(joined, threads, x, tactic);
    ASSERT_EQ(tactic, "strips");
    ASSERT_TRUE(got == expected) << threads << " threads";
  }
}

}  // namespace

TEST(Pair, OneStepGivesTheBitsOfTwo) {
  expect_same_bits("1,9,7", {1, 9, 7, 16}, 24, 3, "pads=[1, 1, 1, 1]");
  expect_same_bits("2,57,61", {2, 57, 61, 16}, 96, 3, "pads=[1, 1, 1, 1], strides=[2, 2]");
  expect_same_bits("1,60,50", {1, 60, 50, 16}, 72, 5, "pads=[2, 2, 2, 2]");
  expect_same_bits("1,41,43", {1, 41, 43, 16}, 144, 3, "pads=[0, 1, 2, 0], strides=[2, 1]");
  expect_same_bits("2,20,22", {2, 20, 22, 16}, 32, 3, "pads=[1, 1, 1, 1], activation=\"relu\"");
  expect_same_bits("3,30,30", {3, 30, 30, 16}, 40, 3, "dilations=[2, 2], pads=[2, 2, 2, 2]");
}

TEST(Pair, AGroupKeepsItsMembers) {
  const ir::Graph graph = expansion("1,9,7", 24, 3, "pads=[1, 1, 1, 1]");
  ir::Graph whole = passes::with_groups(graph, passes::groups_of(graph, backends::host().groups()));
  ASSERT_EQ(whole.nodes.size(), 1u);
  ASSERT_EQ(whole.nodes[0].members->nodes.size(), 2u);
  passes::take_apart(whole, 0);
  whole.tidy();
  ir::verify(whole);
  EXPECT_EQ(ir::print(whole), ir::print(graph));
}

TEST(Pair, RunsAsTwoWhereNothingElseIsRecorded) {
  plan::Plan plan;
  plan.graph = expansion("1,9,7", 24, 3, "pads=[1, 1, 1, 1]");
  const std::string before = ir::print(plan.graph);
  EXPECT_EQ(ir::print(plan::device_graph(plan.graph, plan)), before);
  record(plan, plan::unfused);
  EXPECT_EQ(ir::print(plan::device_graph(plan.graph, plan)), before);
  record(plan, "no kernel of this program");
  EXPECT_EQ(ir::print(plan::device_graph(plan.graph, plan)), before);
  record(plan, "strips");
  EXPECT_EQ(plan::device_graph(plan.graph, plan).nodes.size(), 1u);
}

TEST(AddNorm, IsFoundWhereRowsOfASumAreNormalised) {
  const auto ops_of = [](const std::string& add, const std::string& norm) {
    ir::Graph graph = ir::parse(
        "graph \"g\"\ninput %a : f32[2,5,8]\ninput %b : f32[2,5,8]\ninput %r : f32[5,8]\n"
        "const %s : f32[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n" +
            add + norm + "%z : f32[2,5,8] = Mul(%x, %y)\noutput %z as \"z\"\n",
        {});
    return ops_grouped(std::move(graph));
  };
  const std::string add = "%x : f32[2,5,8] = Add(%a, %b)\n", norm = "%y : f32[2,5,8] = RMSNormalization(%x, %s)\n";
  EXPECT_EQ(ops_of(add, norm), "tenon:AddRmsNorm Mul ");
  EXPECT_EQ(ops_of(add, "%y : f32[2,5,8] = LayerNormalization(%x, %s, %s)\n"), "tenon:AddLayerNorm Mul ");
  EXPECT_EQ(ops_of("%x : f32[2,5,8] = Add(%a, %r)\n", norm), "Add RMSNormalization Mul ");
  EXPECT_EQ(ops_of(add, "%y : f32[2,5,8] = LayerNormalization(%x, %r) {axis=1}\n"), "Add LayerNormalization Mul ");
}

TEST(FramesDepthwise, IsFoundWhereConvolutionsOfFramesAddUp) {
  const auto ops_of = [](const std::string& second, const std::string& attributes = "", const std::string& more = "",
                         const std::string& volume = "input %x : f32[2,6,7,9,4]\n") {
    const std::string all = "group=4, layout=\"NHWC\", pads=[1, 1, 1, 1]";
    ir::Graph graph = ir::parse(
        "graph \"g\"\nconst %zeros : f32[2,1,7,9,4] = @1\n" + volume +
            "const %axis : i64[1] = {1}\nconst %zero : i64[1] = {0}\n"
            "const %one : i64[1] = {1}\nconst %two : i64[1] = {2}\nconst %four : i64[1] = {4}\n"
            "const %five : i64[1] = {5}\nconst %six : i64[1] = {6}\nconst %sizes : i64[4] = {-1, 7, 9, 4}\n"
            "const %u : f32[4,1,3,3] = @0\nconst %v : f32[4,1,3,3] = @0\nconst %w : f32[4,1,3,3] = @0\n"
            "%a : f32[2,4,7,9,4] = Slice(%x, %zero, %four, %axis, %one)\n%d : f32[8,7,9,4] = Reshape(%a, %sizes)\n"
            "%p : f32[8,7,9,4] = Conv(%d, %u) {" +
            all +
            "}\n"
            "%b : f32[2,4,7,9,4] = Slice(%x, " +
            second +
            ", %axis, %one)\n%e : f32[8,7,9,4] = Reshape(%b, %sizes)\n"
            "%q : f32[8,7,9,4] = Conv(%e, %v, _, %p) {" +
            all + attributes +
            ", residual=\"before\"}\n"
            "%c : f32[2,4,7,9,4] = Slice(%x, %two, %six, %axis, %one)\n%f : f32[8,7,9,4] = Reshape(%c, %sizes)\n"
            "%z : f32[8,7,9,4] = Conv(%f, %w, _, %q) {" +
            all + ", activation=\"relu\", residual=\"before\"}\n" + more + "output %z as \"z\"\n",
        {random_tensor({4, 1, 3, 3}, 1), Tensor::of<float>(DType::f32, {2, 1, 7, 9, 4}, std::vector<float>(504, 0.f))});
    return ops_grouped(std::move(graph));
  };
  const std::string apart = "Slice Reshape Conv Slice Reshape Conv Slice Reshape Conv ";
  EXPECT_EQ(ops_of("%one, %five"), "tenon:FramesDepthwise ");
  EXPECT_EQ(ops_of("%zero, %four"), apart);
  EXPECT_EQ(ops_of("%one, %five", ", activation=\"relu\""), "Slice Reshape tenon:FramesDepthwise Conv ");
  EXPECT_EQ(ops_of("%one, %five", "", "output %b as \"b\"\n"), apart);
  EXPECT_EQ(ops_of("%one, %five", "", "output %q as \"q\"\n"), "Slice Reshape tenon:FramesDepthwise Conv ");
  const std::string of_four = "input %i : f32[2,4,7,9,4]\n", of_five = "input %i : f32[2,5,7,9,4]\n",
                    join = "%x : f32[2,6,7,9,4] = Concat(";
  EXPECT_EQ(ops_of("%one, %five", "", "", of_four + join + "%zeros, %i, %zeros) {axis=1}\n"), "tenon:FramesDepthwise ");
  EXPECT_EQ(ops_of("%one, %five", "", "", of_five + join + "%i, %zeros) {axis=1}\n"), "tenon:FramesDepthwise ");
  EXPECT_EQ(ops_of("%one, %five", "", "output %x as \"x\"\n", of_four + join + "%zeros, %i, %zeros) {axis=1}\n"),
            "Concat tenon:FramesDepthwise ");
  EXPECT_EQ(ops_of("%one, %five", "", "", "input %i : f32[2,3,7,9,4]\n" + join + "%i, %i) {axis=1}\n"),
            "Concat tenon:FramesDepthwise ");
}

TEST(PlanarConv, IsFoundWhereRowsOfPlanesLieSideBySide) {
  const auto ops_of = [](const std::string& perm, const std::string& channels, const std::string& more = "",
                         const std::string& volume = "") {
    const std::string x = volume.empty() ? "input %x : f32[5,2,9,9]\n"
                                         : "input %v : f32[" + volume +
                                               "]\nconst %sizes : i64[4] = {5, 2, 9, 9}\n"
                                               "%x : f32[5,2,9,9] = Reshape(%v, %sizes)\n";
    ir::Graph graph =
        ir::parse("graph \"g\"\n" + x + "const %w : f32[" + channels +
                      ",3,3] = @0\n%a : f32[?,9,9,?] = Transpose(%x) {perm=" + perm +
                      "}\n%y : f32[?,7,7,?] = Conv(%a, %w) {layout=\"NHWC\"}\n" + more + "output %y as \"y\"\n",
                  {random_tensor({std::stoi(channels), channels.back() - '0', 3, 3}, 1)});
    return ops_grouped(std::move(graph));
  };
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "8,5"), "tenon:PlanarConv ");
  EXPECT_EQ(ops_of("[0, 2, 3, 1]", "9,2"), "tenon:PlanarConv ");
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "8,5", "", "1,5,2,9,9"), "tenon:PlanarConv ");
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "8,5", "", "5,1,2,9,9"), "Reshape tenon:PlanarConv ");
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "8,5", "output %x as \"x\"\n", "1,5,2,9,9"), "Reshape tenon:PlanarConv ");
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "65,5"), "Transpose Conv ") << "many channels";
  EXPECT_EQ(ops_of("[1, 3, 2, 0]", "8,5"), "Transpose Conv ") << "columns";
  EXPECT_EQ(ops_of("[1, 2, 3, 0]", "8,5", "output %a as \"a\"\n"), "Transpose Conv ") << "a second reader";
}

TEST(PlanarConv, TakesFramesOfAVolume) {
  const auto ops_of = [](const std::string& second, const std::string& more = "", float zero = 0) {
    const auto slice = [](const std::string& name, const std::string& begin, const std::string& end) {
      return "%" + name + " : f32[1,2,4,9,9] = Slice(%p, %" + begin + ", %" + end + ", %two)\n";
    };
    std::string text = "graph \"g\"\ninput %v : f32[1,2,5,9,9]\nconst %w : f32[8,6,3,3] = @0\n";
    text += "const %z : f32[1,2,1,9,9] = @1\nconst %sizes : i64[4] = {6, 4, 9, 9}\n";
    for (const auto& [name, value] :
         {std::pair("zero", "0"), {"one", "1"}, {"two", "2"}, {"four", "4"}, {"five", "5"}, {"six", "6"}})
      text += "const %" + std::string(name) + " : i64[1] = {" + value + "}\n";
    text += "%p : f32[1,2,6,9,9] = Concat(%z, %v) {axis=2}\n" + slice("a", "zero", "four") + slice("b", "one", "five") +
            slice("c", "two", "six");
    text += "%f : f32[1,6,4,9,9] = Concat(%a, " + second + ", %c) {axis=1}\n%x : f32[6,4,9,9] = Reshape(%f, %sizes)\n";
    text +=
        "%t : f32[4,9,9,6] = Transpose(%x) {perm=[1, 2, 3, 0]}\n%y : f32[4,7,7,8] = Conv(%t, %w) {layout=\"NHWC\"}\n";
    Tensor zeros(DType::f32, {1, 2, 1, 9, 9});
    std::fill_n(zeros.data<float>(), zeros.elements(), zero);
    ir::Graph graph = ir::parse(text + more + "output %y as \"y\"\n", {random_tensor({8, 6, 3, 3}, 1), zeros});
    return ops_grouped(std::move(graph));
  };
  EXPECT_EQ(ops_of("%b"), "tenon:PlanarConv ");
  EXPECT_EQ(ops_of("%b", "", 1), "Concat tenon:PlanarConv ") << "frames of ones";
  EXPECT_EQ(ops_of("%b", "output %p as \"p\"\n"), "Concat tenon:PlanarConv ") << "a second reader";
  EXPECT_EQ(ops_of("%b", "output %b as \"b\"\n"), "Concat Slice Slice Slice Concat tenon:PlanarConv ");
  EXPECT_EQ(ops_of("%a", "output %b as \"b\"\n"), "Concat Slice Slice Slice Concat tenon:PlanarConv ");
}

TEST(FramesDepthwise, IsTimedBesideManyMembers) {
  std::string text =
      "graph \"g\"\ninput %x : f32[1,12,7,9,4]\nconst %axis : i64[1] = {1}\nconst %sizes : i64[4] = "
      "{-1, 7, 9, 4}\n";
  for (int k = 0; k < 9; ++k) {
    const std::string n = std::to_string(k);
    text += "const %b" + n + " : i64[1] = {" + n + "}\nconst %e" + n + " : i64[1] = {" + std::to_string(k + 4) +
            "}\nconst %w" + n + " : f32[4,1,3,3] = @0\n%s" + n + " : f32[1,4,7,9,4] = Slice(%x, %b" + n + ", %e" + n +
            ", %axis)\n%r" + n + " : f32[4,7,9,4] = Reshape(%s" + n + ", %sizes)\n%c" + n +
            " : f32[4,7,9,4] = Conv(%r" + n + ", %w" + n + (k > 0 ? ", _, %c" + std::to_string(k - 1) : "") +
            ") {group=4, layout=\"NHWC\", pads=[1, 1, 1, 1]" + (k > 0 ? ", residual=\"before\"" : "") + "}\n";
  }
  plan::Plan plan;
  plan.graph = ir::parse(text + "output %c8 as \"y\"\n", {random_tensor({4, 1, 3, 3}, 1)});
  ops::infer(plan.graph);
  compile::Disturbed disturbed;
  EXPECT_GE(compile::tune(plan, {}, disturbed, -1, {}).tactics, 2);
}

TEST(FramesConv, IsFoundWhereFramesAreCopiedBesideEachOtherForIt) {
  const auto ops_of = [](const std::string& second, const std::string& volume = "%x", const std::string& more = "") {
    ir::Graph graph = ir::parse(
        "graph \"g\"\ninput %x : f32[2,6,7,9,8]\ninput %y : f32[2,6,7,9,8]\nconst %axis : i64[1] = {1}\n"
        "const %zero : i64[1] = {0}\nconst %one : i64[1] = {1}\nconst %four : i64[1] = {4}\n"
        "const %five : i64[1] = {5}\nconst %sizes : i64[4] = {-1, 7, 9, 16}\nconst %w : f32[4,16,3,3] = @0\n"
        "%a : f32[2,4,7,9,8] = Slice(%x, %zero, %four, %axis, %one)\n"
        "%b : f32[2,4,7,9,8] = Slice(" +
            volume + ", %" + second +
            ", %five, %axis, %one)\n"
            "%c : f32[2,4,7,9,16] = Concat(%a, %b) {axis=4}\n%d : f32[8,7,9,16] = Reshape(%c, %sizes)\n"
            "%z : f32[8,7,9,4] = Conv(%d, %w) {layout=\"NHWC\", pads=[1, 1, 1, 1]}\n" +
            more + "output %z as \"z\"\n",
        {random_tensor({4, 16, 3, 3}, 1)});
    return ops_grouped(std::move(graph));
  };
  EXPECT_EQ(ops_of("one"), "tenon:FramesConv ");
  EXPECT_EQ(ops_of("one", "%y"), "Slice Slice Concat Reshape Conv ");
  EXPECT_EQ(ops_of("one", "%x", "output %b as \"b\"\n"), "Slice Slice Concat Reshape Conv ");
  EXPECT_EQ(ops_of("one", "%x", "output %c as \"c\"\n"), "Slice Slice Concat Reshape Conv ");
}

TEST(FramesConv, IsFoundOnBytes) {
  ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : u8[2,6,7,9,8]\nconst %axis : i64[1] = {1}\nconst %zero : i64[1] = {0}\n"
      "const %one : i64[1] = {1}\nconst %four : i64[1] = {4}\nconst %five : i64[1] = {5}\n"
      "const %sizes : i64[4] = {-1, 7, 9, 16}\nconst %w : i8[4,16,1,1] = @0\nconst %s : f32[] = {0.5}\n"
      "const %z : u8[] = {7}\n"
      "%a : u8[2,4,7,9,8] = Slice(%x, %zero, %four, %axis, %one)\n"
      "%b : u8[2,4,7,9,8] = Slice(%x, %one, %five, %axis, %one)\n"
      "%c : u8[2,4,7,9,16] = Concat(%a, %b) {axis=4}\n%d : u8[8,7,9,16] = Reshape(%c, %sizes)\n"
      "%y : u8[8,7,9,4] = tenon:Int8Conv(%d, %w, _, _, %s, %z, %s, %s, %z) {layout=\"NHWC\"}\n"
      "output %y as \"y\"\n",
      {Tensor::of<int8_t>(DType::i8, {4, 16, 1, 1}, std::vector<int8_t>(64, 1))});
  ops::infer(graph);
  graph = passes::with_groups(graph, passes::groups_of(graph, backends::host().groups()));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op.str(), "tenon:Int8FramesConv");
}

TEST(FramesConv, LeavesFramesOfTheZeroPointOut) {
  const auto ops_of = [](uint8_t padding, const std::string& more = "") {
    ir::Graph graph = ir::parse(
        "graph \"g\"\ninput %x : u8[2,4,7,9,8]\nconst %p : u8[2,1,7,9,8] = @1\nconst %axis : i64[1] = {1}\n"
        "const %zero : i64[1] = {0}\nconst %one : i64[1] = {1}\nconst %four : i64[1] = {4}\n"
        "const %five : i64[1] = {5}\nconst %sizes : i64[4] = {-1, 7, 9, 16}\nconst %w : i8[4,16,1,1] = @0\n"
        "const %s : f32[] = {0.5}\nconst %z : u8[] = {7}\n"
        "%v : u8[2,5,7,9,8] = Concat(%p, %x) {axis=1}\n"
        "%a : u8[2,4,7,9,8] = Slice(%v, %zero, %four, %axis, %one)\n"
        "%b : u8[2,4,7,9,8] = Slice(%v, %one, %five, %axis, %one)\n"
        "%c : u8[2,4,7,9,16] = Concat(%a, %b) {axis=4}\n%d : u8[8,7,9,16] = Reshape(%c, %sizes)\n"
        "%y : u8[8,7,9,4] = tenon:Int8Conv(%d, %w, _, _, %s, %z, %s, %s, %z) {layout=\"NHWC\"}\n" +
            more + "output %y as \"y\"\n",
        {Tensor::of<int8_t>(DType::i8, {4, 16, 1, 1}, std::vector<int8_t>(64, 1)),
         Tensor::of<uint8_t>(DType::u8, {2, 1, 7, 9, 8}, std::vector<uint8_t>(2 * 7 * 9 * 8, padding))});
    ops::infer(graph);
    graph = passes::with_groups(graph, passes::groups_of(graph, backends::host().groups()));
    std::string ops;
    for (const ir::Node& node : graph.nodes) ops += node.op + " " + std::to_string(node.integer("before", 0)) + " ";
    return ops;
  };
  EXPECT_EQ(ops_of(7), "tenon:Int8FramesConv 1 ");
  EXPECT_EQ(ops_of(8), "Concat 0 tenon:Int8FramesConv 0 ");
  EXPECT_EQ(ops_of(7, "output %v as \"v\"\n"), "Concat 0 tenon:Int8FramesConv 0 ");
}
