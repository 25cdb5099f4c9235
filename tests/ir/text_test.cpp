// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/error.h>

#include "ir/graph.h"

using namespace tenon;

namespace {

const char* const sample = R"(graph "net \"1\"\n"
input %images : f32[N,3,640,640]
input %"a b" : ?
const %w : f32[2,2] = {1.0, -0.5, 3.0e+20, inf}
const %s : i64[] = {7}
const %names : string[2] = {"x", "\x01\\"}
%y : f32[N,16,(H+1)//2,2*N+1] = Conv(%images, %w, _) {alpha=0.1, auto="x", body={
  graph "inner"
  input %i : i64[]
  %o : i64[] = Identity(%i)
  output %o as "o"
}, empty=[], fs=floats[], pads=[1, -1], ss=strings[],
   t=tensor i64[2] {1, 2}, words=["a", "b"]} from ["/model.0/conv/Conv"]
_, %z : f32 = Split(%y) {axis=1}
output %z as "output0"
output %y as "y"
meta "names" = "{0: 'person'}"
)";

std::string fault(const std::string& text) {
  try {
    ir::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_model);
    return error.where() + ": " + error.what();
  }
  return "no fault";
}

}  // namespace

TEST(Text, RoundTrips) {
  const ir::Graph graph = ir::parse(sample);
  ir::verify(graph);
  const std::string once = ir::print(graph);
  EXPECT_EQ(ir::print(ir::parse(once)), once);
  EXPECT_NE(once.find("%y : f32[N,16,(H+1)//2,2*N+1] = Conv(%images, %w, _) {alpha=0.1, auto=\"x\", body={"),
            std::string::npos)
      << once;
  EXPECT_NE(
      once.find("empty=[], fs=floats[], pads=[1, -1], ss=strings[], t=tensor i64[2] {1, 2}, words=[\"a\", \"b\"]"),
      std::string::npos);
  EXPECT_EQ(graph.name, "net \"1\"\n");
  EXPECT_EQ(graph.value(graph.inputs[1]).name, "a b");
}

TEST(Text, KeepsConstantsInAPool) {
  ir::Graph graph;
  const Tensor big = Tensor::of<float>(DType::f32, {3}, std::vector<float>{1, 2, 3});
  graph.outputs = {graph.add_constant("big", big)};
  graph.output_names = {"big"};
  std::vector<Tensor> pool;
  const std::string text = ir::print(graph, &pool, 2);
  ASSERT_EQ(pool.size(), 1u);
  EXPECT_NE(text.find("= @0"), std::string::npos);
  const ir::Graph again = ir::parse(text, pool);
  EXPECT_EQ(again.value(again.outputs[0]).constant.data<float>(), big.data<float>());
  EXPECT_NE(ir::print(graph, nullptr, 2).find("= ..."), std::string::npos);
  EXPECT_THROW(ir::parse(text), Error);
}

TEST(Text, NamesTheLineOfAFault) {
  EXPECT_EQ(fault("graph \"g\"\n%y : f32 = Relu(%x)"), "line 2: graph text: value %x is not defined before its use");
  EXPECT_EQ(fault("graph \"g\"\ninput %x : f32\ninput %x : f32"), "line 3: graph text: value %x is defined twice");
  EXPECT_EQ(fault("graph \"g\"\nconst %x : f32[3] = {1.0, 2.0}"),
            "line 2: graph text: 2 elements for sizes 3");
  EXPECT_EQ(fault("graph \"g\"\nconst %x : f32[99999999999] = {}"),
            "line 2: graph text: 0 elements for sizes 99999999999");
  EXPECT_EQ(fault("graph \"g\"\nconst %x : f32[N] = {}"), "line 2: graph text: a constant needs known sizes");
  EXPECT_EQ(fault("graph \"g\"\nconst %x : f32[] = @0"), "line 2: graph text: there is no tensor @0");
  EXPECT_EQ(fault("graph \"g"), "line 1: graph text: a quoted text has no end");
}

TEST(Text, BoundsTheDepthOfSubgraphs) {
  std::string text = "graph \"g\"";
  for (int depth = 0; depth < 100000; ++depth) text += "%a : f32 = If() {b={graph \"g\"";
  EXPECT_NE(fault(text).find("nested too deep"), std::string::npos);
}

TEST(Text, SurvivesEveryCut) {
  const std::string text = sample;
  for (size_t at = 0; at < text.size(); ++at) {
    try {
      ir::parse(text.substr(0, at));
    } catch (const Error&) {
    }
  }
}

TEST(Verify, FindsWhatIsBroken) {
  ir::Graph graph = ir::parse("graph \"g\"\ninput %x : f32[2]\n%y : f32[2] = Relu(%x)\noutput %y as \"y\"");
  EXPECT_NO_THROW(ir::verify(graph));
  ir::Graph users = graph;
  users.values[users.inputs[0]].users.clear();
  EXPECT_THROW(ir::verify(users), std::logic_error);
  ir::Graph twice = graph;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_THROW(ir::verify(twice), std::logic_error);
  ir::Graph undefined = graph;
  undefined.inputs.clear();
  EXPECT_THROW(ir::verify(undefined), std::logic_error);
}
