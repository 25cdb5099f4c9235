// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "support/op_graphs.h"
#include "target.h"
#include "tenon/error.h"

/// The text form of graphs, which engines hold: reader, inference, passes, and back to text.
namespace tenon::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all{
      "graph \"g\"\ninput %x : f32[N,3,8,8]\nconst %w : f32[1,3,1,1] = {0.5, 1, -2e3}\n%y : f32[N,1,8,8] = Conv(%x, "
      "%w) {pads=[0, 0, 0, 0], group=1} from [\"c\"]\noutput %y as \"y\"\n",
      "graph \"g\"\ninput %x : f32[(N+1)//2,2*M]\nmeta \"k\" = \"v\\x01\"\n%a = Shape(%x)\n%y = Reshape(%x, %a)\n%z, _ "
      "= Split(%y) {axis=1, num_outputs=2}\noutput %z\n",
      "graph \"g\"\ninput %c : bool[]\ninput %x : f32[4]\n%y = If(%c, %x) {captures=1, then_branch={graph \"t\" input "
      "%x : f32[4] %r = Relu(%x) output %r}, else_branch={graph \"e\" input %x : f32[4] %r = Neg(%x) output "
      "%r}}\noutput %y\n",
      "graph \"g\"\nconst %s : string[2] = {\"a\", \"b\"}\nconst %i : i64[1] = {1}\n%y = Gather(%s, %i) {axis=0, "
      "list=[1.5, 2], words=[\"a\"], t=tensor f32[1]{3}}\noutput %y\n",
      "graph \"g\"\ninput %x : f32[1,8,8,4]\nconst %w : f32[4,4,1,1] = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}\n%c = "
      "Conv(%x, %w) {layout=\"NHWC\", activation=\"silu\"}\n%t = Transpose(%c) {perm=[0,3,1,2]}\noutput %t\n",
  };
  std::mt19937_64 random(1);
  for (const ops::OpDef* op : ops::all())
    for (int round = 0; round < 2; ++round) all.push_back(ir::print(test::random_graph(*op, random), nullptr, 4096));
  return all;
}

void eat(std::span<const uint8_t> bytes) {
  ir::Graph graph = ir::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  graph.tidy();
  ops::infer(graph);
  passes::optimise(graph);
  passes::lower(graph);
  std::vector<Tensor> pool;
  const std::string text = ir::print(graph, &pool);
  if (ir::print(ir::parse(text, pool), nullptr).empty()) throw Error(Code::internal, "an empty text");
}

}  // namespace tenon::fuzz
