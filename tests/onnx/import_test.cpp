// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "onnx/import.h"
#include "tenon/error.h"

namespace tenon::onnx {
namespace {

// Just enough of a protobuf writer to make models, also ones that no library would write.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string field(int number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(int number, uint64_t value) { return varint(number << 3) + varint(value); }

std::string node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                 std::vector<std::string> outputs, const std::string& rest = "") {
  std::string bytes;
  for (const auto& input : inputs) bytes += field(1, input);
  for (const auto& output : outputs) bytes += field(2, output);
  return field(1, bytes + field(3, name) + field(4, op) + rest);
}
std::string value(int number, const std::string& name) {
  return field(number, field(1, name) + field(2, field(1, field(1, 1))));
}
std::string input(const std::string& name) { return value(11, name); }
std::string output(const std::string& name) { return value(12, name); }
std::string floats(const std::string& name, std::vector<uint64_t> dims, size_t bytes) {
  std::string proto;
  for (uint64_t size : dims) proto += field(1, size);
  return field(5, proto + field(2, 1) + field(8, name) + field(9, std::string(bytes, '\0')));
}
std::string model(const std::string& graph, const std::string& rest = "", uint64_t opset = 17) {
  return field(1, 8) + field(8, field(2, opset)) + field(7, graph) + rest;
}

bool all(const ir::OpId&) { return true; }

ir::Graph import(const std::string& bytes, const Knows& knows = all) {
  return import_bytes(std::as_bytes(std::span(bytes)), "", "m", nullptr, {.knows = knows});
}

// The error as "code|what|where|why".
std::string error_of(const std::string& bytes, const Knows& knows = all) {
  try {
    import(bytes, knows);
  } catch (const Error& error) {
    return std::string(name(error.code())) + "|" + error.what() + "|" + error.where() + "|" + error.why();
  }
  return "none";
}

const std::string relu = model(input("x") + node("r", "Relu", {"x"}, {"y"}) + output("y"));

TEST(Import, KeepsNames) {
  const ir::Graph graph = import(relu);
  ir::verify(graph);
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.output_names, std::vector<std::string>{"y"});
  EXPECT_EQ(graph.nodes[0].origins, std::vector<std::string>{"r"});
}

TEST(Import, SortsNodes) {
  const ir::Graph graph =
      import(model(input("x") + node("b", "Relu", {"a"}, {"y"}) + node("a", "Abs", {"x"}, {"a"}) + output("y")));
  EXPECT_EQ(graph.nodes[0].op, "Abs");
  EXPECT_EQ(graph.nodes[1].op, "Relu");
}

TEST(Import, TurnsAxesIntoAnInput) {
  const std::string axes = field(5, field(1, "axes") + field(8, 2) + field(20, 7));
  const ir::Graph graph = import(model(input("x") + node("u", "Unsqueeze", {"x"}, {"y"}, axes) + output("y"), "", 11));
  ASSERT_EQ(graph.nodes[0].inputs.size(), 2u);
  EXPECT_EQ(graph.constant(graph.nodes[0].inputs[1])->values<int64_t>()[0], 2);
  EXPECT_FALSE(graph.nodes[0].has("axes"));
}

TEST(Import, CountsAxesOfATransposeFromTheEnd) {
  const auto transposed = [](const std::vector<int64_t>& perm) {
    std::string axes = field(1, "perm") + field(20, 7);
    for (const int64_t axis : perm) axes += field(8, static_cast<uint64_t>(axis));
    return model(input("x") + node("t", "Transpose", {"x"}, {"y"}, field(5, axes)) + output("y"));
  };
  EXPECT_EQ(import(transposed({0, -2, -1, 1})).nodes[0].integers("perm"), (std::vector<int64_t>{0, 2, 3, 1}));
  ir::Graph wrong = import(transposed({0, -5, -1, 1}));
  EXPECT_THROW(ops::infer(wrong), Error);
}

TEST(Import, PassesOuterValuesToBothBranches) {
  const std::string then = node("t", "Relu", {"x"}, {"o"}) + output("o"),
                    other = node("e", "Add", {"z", "w"}, {"o"}) + output("o");
  const std::string rest = field(5, field(1, "then_branch") + field(6, then) + field(20, 5)) +
                           field(5, field(1, "else_branch") + field(6, other) + field(20, 5));
  const ir::Graph graph = import(model(input("c") + input("x") + input("z") + floats("w", {1}, 4) +
                                       node("if", "If", {"c"}, {"y"}, rest) + output("y")));
  const ir::Node& made = graph.nodes[0];
  EXPECT_EQ(made.inputs.size(), 3u);
  EXPECT_EQ(made.integer("captures", -1), 2);
  EXPECT_EQ(made.graph("then_branch")->inputs.size(), 2u);
  EXPECT_EQ(made.graph("else_branch")->inputs.size(), 2u);
}

std::string function(const std::string& name, const std::string& body_op) {
  const std::string body = field(1, "a") + field(2, "b") + field(4, body_op) + field(7, body_op == "Relu" ? "" : "f");
  return field(
      25, field(1, name) + field(10, "f") + field(4, "a") + field(5, "b") + field(7, body) + field(9, field(2, 17)));
}

TEST(Import, InlinesFunctions) {
  const std::string calls = node("c1", "F", {"x"}, {"h"}, field(7, "f")) + node("c2", "F", {"h"}, {"y"}, field(7, "f"));
  const ir::Graph graph = import(model(input("x") + calls + output("y"), function("F", "Relu")));
  ir::verify(graph);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[1].origins[0], "c2/Relu_0");
}

TEST(Import, NamesRecursion) {
  EXPECT_EQ(error_of(model(input("x") + node("c", "F", {"x"}, {"y"}, field(7, "f")) + output("y"),
                           function("F", "G") + function("G", "F"))),
            "invalid_model|a function calls itself|m|F -> G -> F");
}

TEST(Import, NamesBrokenGraphs) {
  const std::string x = input("x"), y = output("y");
  EXPECT_EQ(error_of(model(x + node("r", "Relu", {"q"}, {"y"}) + y)),
            "invalid_model|a node reads a value that does not exist|m|node 'r' (Relu) reads 'q'");
  EXPECT_EQ(error_of(model(x + y)), "invalid_model|no node gives the output|m|output 'y'");
  EXPECT_EQ(error_of(model(x + node("r", "Relu", {"x"}, {"y"}) + node("s", "Abs", {"x"}, {"y"}) + y)),
            "invalid_model|two values have the same name|m|node 's' gives 'y', which node 'r' gives, too");
  EXPECT_EQ(error_of(model(x + node("r", "Relu", {"x"}, {"x"}) + y)),
            "invalid_model|two values have the same name|m|node 'r' gives 'x', which is an input or an initializer");
  EXPECT_EQ(error_of(model(x + node("a", "Add", {"x", "q"}, {"p"}) + node("b", "Abs", {"p"}, {"q"}) +
                           node("c", "Abs", {"q"}, {"y"}) + y)),
            "invalid_model|the graph has a cycle|m|'b' -> 'a'");
}

TEST(Import, ListsEveryUnsupportedOp) {
  const std::string nodes =
      node("a", "Foo", {"x"}, {"p"}) + node("b", "Foo", {"p"}, {"q"}) + node("", "Bar", {"q"}, {"y"}, field(7, "d"));
  EXPECT_EQ(error_of(model(input("x") + nodes + output("y")), [](const ir::OpId& op) { return op == "Relu"; }),
            "unsupported|the model uses operators that are not supported|m|Foo x2 ('a', 'b'); d:Bar x1 ('Bar_2')");
}

TEST(Import, ChecksInitializers) {
  const auto with = [](const std::string& tensor) {
    return model(tensor + node("r", "Relu", {"w"}, {"y"}) + output("y"));
  };
  EXPECT_EQ(error_of(with(floats("w", {2, 3}, 20))),
            "invalid_model|a tensor has the wrong number of bytes|tensor 'w' in m, byte 10|raw_data holds 20 bytes, "
            "f32 of 2x3 needs 24");
  EXPECT_NE(error_of(with(floats("w", {1ull << 62, 4}, 4))).find("a tensor is too large"), std::string::npos);
  EXPECT_NE(error_of(with(floats("w", {~0ull}, 4))).find("a tensor has a negative size"), std::string::npos);
}

TEST(Import, AnyIntegerButZeroIsTrue) {
  const std::string booleans =
      field(1, 3) + field(2, 9) + field(8, "b") + field(5, varint(256) + varint(0) + varint(static_cast<uint64_t>(-1)));
  const ir::Graph graph = import(model(field(5, booleans) + node("n", "Not", {"b"}, {"y"}) + output("y")));
  for (const ir::Value& value : graph.values) {
    if (!value.constant) continue;
    const auto* bytes = value.constant.data<uint8_t>();
    EXPECT_EQ(std::vector<int>(bytes, bytes + 3), std::vector<int>({1, 0, 1}));
    return;
  }
  FAIL() << "there is no constant";
}

TEST(Import, SaysWhatOtherFilesAre) {
  using namespace std::string_literals;
  EXPECT_EQ(error_of(""), "invalid_model|not an ONNX file|m|it looks like an empty file");
  EXPECT_EQ(error_of("PK\x03\x04 and more"s),
            "invalid_model|not an ONNX file|m|it looks like a zip archive (a PyTorch checkpoint is one)");
  EXPECT_EQ(error_of("<!DOCTYPE html><html>"), "invalid_model|not an ONNX file|m|it looks like an HTML page");
  EXPECT_EQ(error_of("\x80\x02}q\0."s),
            "invalid_model|not an ONNX file|m|it looks like a Python pickle (a PyTorch checkpoint)");
}

TEST(Wire, RefusesWhatIsMalformed) {
  EXPECT_EQ(error_of(std::string("\x3a\x7f")),
            "invalid_model|not a well-formed ONNX file|m, byte 0|field 7 needs 127 bytes, 0 are left");
  EXPECT_EQ(error_of(std::string("\x0b")),
            "invalid_model|not a well-formed ONNX file|m, byte 0|wire type 3 is not used by ONNX");
  std::string deep;
  for (int level = 0; level < 120; ++level) deep = field(level % 3 == 2 ? 1 : level % 3 == 1 ? 5 : 6, deep);
  EXPECT_NE(error_of(model(deep)).find("messages are nested deeper than 100 levels"), std::string::npos);
}

// Any outcome but a graph or an Error would end the program or fail the test.
void must_not_crash(const std::string& bytes) {
  try {
    ir::verify(import(bytes));
  } catch (const Error&) {
  }
}

TEST(Import, SurvivesTruncationAndBitFlips) {
  std::string bytes = model(input("x") + floats("w", {2, 2}, 16) + node("m", "MatMul", {"x", "w"}, {"h"}) +
                                node("r", "Relu", {"h"}, {"y"}) + output("y"),
                            function("F", "Relu"));
  for (size_t length = 0; length < bytes.size(); ++length) must_not_crash(bytes.substr(0, length));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    must_not_crash(flipped);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string flipped = bytes;
    for (int count = 0; count < 4; ++count) flipped[random() % flipped.size()] = static_cast<char>(random());
    must_not_crash(flipped);
  }
}

class External : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tenon_external_XXXXXX";
    root_ = ::mkdtemp(pattern);
    std::filesystem::create_directory(root_ + "/model");
    const std::string data(64, '\1');
    write_atomically(root_ + "/outside.bin", std::as_bytes(std::span(data)));
    write_atomically(root_ + "/model/inside.bin", std::as_bytes(std::span(data)));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string why(const std::string& location, const std::string& offset = "0") {
    const std::string tensor =
        field(5, field(1, 4) + field(2, 1) + field(8, "w") + field(13, field(1, "location") + field(2, location)) +
                     field(13, field(1, "offset") + field(2, offset)) + field(14, 1));
    const std::string bytes = model(tensor + node("r", "Relu", {"w"}, {"y"}) + output("y"));
    try {
      import_bytes(std::as_bytes(std::span(bytes)), root_ + "/model", "m", nullptr, {.knows = all});
    } catch (const Error& error) {
      return error.why();
    }
    return "none";
  }
  std::string root_;
};

TEST_F(External, StaysInsideTheFolder) {
  EXPECT_EQ(why("inside.bin"), "none");
  EXPECT_EQ(why("../outside.bin"), "the location leaves the model's folder");
  EXPECT_EQ(why(root_ + "/outside.bin"), "the location is an absolute path");
  ASSERT_EQ(::symlink("../outside.bin", (root_ + "/model/link.bin").c_str()), 0);
  EXPECT_EQ(why("link.bin"), "the path goes through a symbolic link");
  ASSERT_EQ(::link((root_ + "/outside.bin").c_str(), (root_ + "/model/hard.bin").c_str()), 0);
  EXPECT_EQ(why("hard.bin"), "the file has a second name (a hard link)");
  EXPECT_EQ(why("inside.bin", "56"), "'inside.bin' has 64 bytes, the tensor needs 16 bytes from byte 56 on");
  EXPECT_EQ(why("inside.bin", "9223372036854775807"),
            "'inside.bin' has 64 bytes, the tensor needs 16 bytes from byte 9223372036854775807 on");
  ASSERT_EQ(::mkfifo((root_ + "/model/pipe").c_str(), 0600), 0);
  EXPECT_EQ(why("pipe"), "");
}

}  // namespace
}  // namespace tenon::onnx
