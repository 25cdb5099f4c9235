// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"
#include "passes/pass.h"
#include "support/net.h"
#include "support/op_graphs.h"
#include "target.h"

/// An ONNX file: the wire reader, the importer, inference, the passes, and the run of what is small.
namespace tenon::fuzz {

using namespace test;

std::vector<std::string> seeds() {
  const std::string branch = node("t", "Relu", {"x"}, {"o"}) + output("o"),
                    other = node("e", "Neg", {"x"}, {"o"}) + output("o");
  const std::string body = input("i", {}, i64) + input("k", {}, boolean) + input("c", {1, 4}) +
                           node("n", "Add", {"c", "c"}, {"c2"}) + node("q", "Identity", {"k"}, {"k2"}) + output("k2") +
                           output("c2");
  const std::string function =
      field(25, field(1, "F") + field(10, "f") + field(4, "a") + field(5, "b") +
                    field(7, field(1, "a") + field(2, "b") + field(4, "Relu")) + field(9, field(2, 17)));
  const std::string x = input("x", {1, 4}), y = output("y");
  std::vector<std::string> all{
      small_net(),
      small_net(2),
      model(input("c", {}, boolean) + x +
            node("if", "If", {"c"}, {"y"}, graph("then_branch", branch) + graph("else_branch", other)) + y),
      model(x + scalar("n", 3) + node("l", "Loop", {"n", "", "x"}, {"y"}, graph("body", body)) + y),
      model(x + node("c", "F", {"x"}, {"y"}, field(7, "f")) + y, function),
      model(x + node("s", "Shape", {"x"}, {"s"}) + node("g", "Gather", {"s", "i"}, {"g"}) + numbers("i", {1, 0}) +
            node("r", "Reshape", {"x", "g"}, {"y"}) + y),
      model(input("x", {1, 4, 6, 6}) + numbers("p", {0, 0, 1, 1, 0, 0, 1, 1}) + node("p", "Pad", {"x", "p"}, {"a"}) +
            node("m", "MaxPool", {"a"}, {"b"}, integers("kernel_shape", {2, 2}) + integers("strides", {2, 2})) +
            tensor("s", f32, {4}, raw<float>({1, 1, 2, 2})) + node("u", "Resize", {"b", "", "s"}, {"c"}) +
            node("t", "Transpose", {"c"}, {"d"}, integers("perm", {0, 2, 3, 1})) + node("f", "Softmax", {"d"}, {"e"}) +
            numbers("k", {1, 3}) + node("sp", "Split", {"e", "k"}, {"g", "h"}, integer("axis", 3)) +
            node("co", "Concat", {"h", "g"}, {"y"}, integer("axis", -1)) + y),
      model(x + numbers("a", {0}) + node("u", "Slice", {"x", "a", "b"}, {"z"}) + numbers("b", {1}) +
                node("r", "ReduceMean", {"z", "a"}, {"w"}) + node("e", "Expand", {"w", "sh"}, {"y"}) +
                numbers("sh", {2, 4}) + y,
            "", 18),
      // Operands without a type, of few elements, and of another type than a kernel reads.
      model(input("x", {1, 4}, i8) + field(11, field(1, "z")) + node("m", "Mod", {"x", "z"}, {"y"}) + y),
      model(x + input("n", {0}, i64) + node("l", "Loop", {"n", "", "x"}, {"y"}, graph("body", body)) + y),
      model(input("c", {}, i64) + x +
            node("if", "If", {"c"}, {"y"}, graph("then_branch", branch) + graph("else_branch", other)) + y),
      model(input("x", {1, 2, 3, 4}) + input("c", {8, 2}) + input("s", {8, 2}) + input("p", {1, 3}, i64) +
                node("r", "RotaryEmbedding", {"x", "c", "s", "p"}, {"y"}) + y,
            "", 23),
      model(input("x", {2, 1, 4, 3}) + input("u", {2, 1, 1, 3}) + input("at", {2}, i64) +
                node("s", "TensorScatter", {"x", "u", "at"}, {"y"}) + y,
            "", 24),
      model(x + input("i", {1, 4}, i64) + input("u", {1, 4}) + node("s", "ScatterElements", {"x", "i", "u"}, {"z"}) +
                node("g", "GatherElements", {"z", "i"}, {"w"}) + node("p", "Pad", {"w", "n", "v"}, {"y"}) +
                numbers("n", {0, 0, 1, 1}) + input("v", {1}) + y,
            "", 18),
  };
  std::mt19937_64 random(1);
  for (const ops::OpDef* op : ops::all())
    for (int round = 0; round < 2; ++round) all.push_back(onnx_of(random_graph(*op, random)));
  return all;
}

void eat(std::span<const uint8_t> bytes) {
  static const Folder folder;
  const auto copy = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ir::Graph graph = onnx::import_bytes(std::as_bytes(std::span(*copy)), folder.path(), "m", copy);
  passes::optimise(graph);
  passes::lower(graph);
  folder.write("m.onnx", *copy);
  BuildOptions options = quick_build();
  options.threads = 1;
  const Engine engine = build(folder / "m.onnx", options);
  Session session = engine.session();
  std::map<std::string, Tensor> inputs;
  for (const TensorInfo& info : engine.inputs()) {
    Dims dims;
    for (int64_t size : info.shape) dims.push_back(size < 0 ? 1 : size);
    inputs[info.name] = Tensor(info.dtype, dims);
  }
  session.run(inputs);
}

}  // namespace tenon::fuzz
