// SPDX-License-Identifier: Apache-2.0
// Transposes around attention are views: nothing runs for them, and the results stay.
#include <gtest/gtest.h>

#include "ops/op.h"
#include "plan/plan.h"
#include "runtime/program.h"
#include "support/net.h"

using namespace tenon;
using test::random_tensor;

namespace {

/// Queries, keys and values in one row each, heads of 4 side by side; the result's rows likewise.
constexpr const char* turned_text = R"(graph "g"
input %x : f32[2,5,24]
const %heads : i64[5] = {2, 5, 3, 2, 4}
const %parts : i64[3] = {1, 1, 1}
const %four : i64[4] = {2, 5, 2, 4}
const %rows : i64[3] = {2, 5, 8}
%r : f32[2,5,24] = Relu(%x)
%h : f32[2,5,3,2,4] = Reshape(%r, %heads)
%a : f32[2,5,1,2,4], %b : f32[2,5,1,2,4], %c : f32[2,5,1,2,4] = Split(%h, %parts) {axis=2}
%qr : f32[2,5,2,4] = Reshape(%a, %four)
%kr : f32[2,5,2,4] = Reshape(%b, %four)
%vr : f32[2,5,2,4] = Reshape(%c, %four)
%q : f32[2,2,5,4] = Transpose(%qr) {perm=[0, 2, 1, 3]}
%k : f32[2,2,5,4] = Transpose(%kr) {perm=[0, 2, 1, 3]}
%v : f32[2,2,5,4] = Transpose(%vr) {perm=[0, 2, 1, 3]}
%o : f32[2,2,5,4] = tenon:DotAttention(%q, %k, %v) {scale=0.5}
%t : f32[2,5,2,4] = Transpose(%o) {perm=[0, 2, 1, 3]}
%y : f32[2,5,8] = Reshape(%t, %rows)
output %y as "y"
)";

/// The Transposes that a device runs in front of a product; the first keeps rows where `kept`, the second turns `rows`
/// rows of 8 into columns.
size_t transposes_run(bool kept, int64_t rows, bool host_memory, bool other_user = false) {
  const std::string m = std::to_string(rows);
  const char *rows_kept = "{perm=[0, 2, 1, 3]}", *rows_turned = "{perm=[0, 2, 3, 1]}";
  std::string text = "graph \"g\"\ninput %x : f32[2," + m + ",3,8]\ninput %z : f32[2," + m + ",3,8]\n";
  text += "%a : f32[2," + m + ",3,8] = Relu(%x)\n%b : f32[2," + m + ",3,8] = Relu(%z)\n";
  text += std::string("%p : ? = Transpose(%a) ") + (kept ? rows_kept : rows_turned) + "\n";
  text += std::string("%q : ? = Transpose(%b) ") + (kept ? rows_turned : rows_kept) + "\n";
  text += "%y : ? = MatMul(%p, %q)\noutput %y as \"y\"\n";
  if (other_user) text += "output %p as \"p\"\noutput %q as \"q\"\n";
  ir::Graph graph = ir::parse(text);
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph, false, host_memory);
  size_t count = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) count += graph.nodes[id].op == "Transpose" && layout.runs[id];
  return count;
}

/// The Transposes that run around products of `rows` x `depth` by `depth` x 16, whose second operands and results come
/// and go transposed: `perm` of the result.
size_t transposes_run_around(int64_t rows, int64_t depth, const char* perm, bool host_memory = false) {
  const std::string m = std::to_string(rows), k = std::to_string(depth);
  std::string text = "graph \"g\"\ninput %x : f32[2,7," + m + "," + k + "]\ninput %z : f32[2,16," + k + ",7]\n";
  text += "%a : ? = Relu(%x)\n%b : ? = Relu(%z)\n%q : ? = Transpose(%b) {perm=[0, 3, 2, 1]}\n";
  text += std::string("%p : ? = MatMul(%a, %q)\n%t : ? = Transpose(%p) {perm=") + perm + "}\n";
  ir::Graph graph = ir::parse(text + "%y : ? = Relu(%t)\noutput %y as \"y\"\n");
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph, false, host_memory);
  size_t count = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) count += graph.nodes[id].op == "Transpose" && layout.runs[id];
  return count;
}

constexpr const char* image_text = R"(graph "g"
input %x : f32[1,8,4]
const %size : i64[2] = {3, 3}
const %block : i64[2] = {2, 2}
%a : f32[1,8,4] = Relu(%x)
%i : f32[1,2,3,3] = Col2Im(%a, %size, %block)
%t : f32[1,3,3,2] = Transpose(%i) {perm=[0, 2, 3, 1]}
%y : f32[1,3,3,2] = Relu(%t)
output %y as "y"
)";

}  // namespace

TEST(Turned, ImagesThatDevicesPutTogetherAreWrittenChannelsLast) {
  ir::Graph graph = ir::parse(image_text);
  ops::infer(graph);
  for (const bool host_memory : {false, true}) {
    const plan::Layout layout = plan::lay_out(graph, false, host_memory);
    for (size_t id = 0; id < graph.nodes.size(); ++id)
      if (graph.nodes[id].op == "Transpose") EXPECT_EQ(layout.runs[id] != 0, host_memory);
  }
}

TEST(Turned, ProductsOfSmallMatricesOnADeviceTakeAndGiveViews) {
  EXPECT_EQ(transposes_run_around(9, 9, "[0, 3, 2, 1]"), 0u);
  EXPECT_EQ(transposes_run_around(9, 9, "[0, 2, 1, 3]"), 0u);
  EXPECT_EQ(transposes_run_around(9, 9, "[0, 1, 3, 2]"), 1u) << "rows of the result would be neighbours";
  EXPECT_EQ(transposes_run_around(9, 9, "[0, 3, 2, 1]", true), 2u) << "the CPU's products take no views";
  EXPECT_EQ(transposes_run_around(9, 40, "[0, 3, 2, 1]"), 2u) << "as deep as tensor cores like it";
}

TEST(Turned, TransposesBeforeProductsOfPackedWeightsRun) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[2,32,12]
const %w : u8[24,1,16] = @0
const %s : f32[24,1] = @1
%p : ? = Transpose(%x) {perm=[0, 2, 1]}
%y : ? = tenon:WeightOnlyMatMul(%p, %w, _, _, %s) {k=32, block=32, bits=4}
output %y as "y"
)",
                              {Tensor(DType::u8, {24, 1, 16}), random_tensor({24, 1}, 1)});
  ops::infer(graph);
  const plan::Layout layout = plan::lay_out(graph, false, false);
  for (size_t id = 0; id < graph.nodes.size(); ++id) EXPECT_TRUE(layout.runs[id]) << "its kernels want whole rows";
}

TEST(Turned, TransposesBeforeProductsOfADeviceAreViewsWhereThoseReadThemAsWell) {
  EXPECT_EQ(transposes_run(true, 12, false), 0u) << "columns of 12 come in no chunks";
  EXPECT_EQ(transposes_run(false, 12, false), 0u);
  EXPECT_EQ(transposes_run(true, 24, false), 1u) << "columns of 24 do";
  EXPECT_EQ(transposes_run(true, 12, true), 2u) << "the CPU's products take no views";
  EXPECT_EQ(transposes_run(true, 12, false, true), 2u) << "others read them";
}

TEST(Turned, TransposesAroundAttentionAreViews) {
  plan::Plan plan;
  plan.graph = ir::parse(turned_text);
  ops::infer(plan.graph);
  const plan::Layout layout = plan::lay_out(plan.graph);
  size_t runs = 0;
  for (char one : layout.runs) runs += one != 0;
  EXPECT_EQ(runs, 2u) << "the activation and the attention";
  const Tensor x = random_tensor({2, 5, 24}, 1);
  const Tensor expected = ops::interpret(plan.graph, {x})[0];
  ThreadPool thread_pool(1);
  runtime::Program program(plan, {}, thread_pool);
  std::vector<Tensor> outputs(1);
  program.run(std::vector<Tensor>{x}, outputs);
  for (int64_t at = 0; at < expected.elements(); ++at)
    ASSERT_FLOAT_EQ(outputs[0].data<float>()[at], expected.data<float>()[at]) << at;
}
