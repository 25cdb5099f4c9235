// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "ops/half.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "support/compare.h"

using namespace tenon;
namespace fs = std::filesystem;

namespace {

/// "pass NAME", a graph, a line "gives", and the graph expected or the words "the same".
struct Case {
  std::string pass, before, after;
};

Case read(const fs::path& path) {
  std::ifstream file(path);
  Case result;
  std::string line;
  bool second = false;
  while (std::getline(file, line)) {
    if (line.rfind("pass ", 0) == 0) result.pass = line.substr(5);
    else if (line == "gives") second = true;
    else (second ? result.after : result.before) += line + "\n";
  }
  return result;
}

/// Values take names by their place, so that made-up names do not matter.
std::string canonical(ir::Graph graph) {
  graph.tidy();
  ops::infer(graph);
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const bool input =
        std::find(graph.inputs.begin(), graph.inputs.end(), static_cast<ir::ValueId>(id)) != graph.inputs.end();
    if (!input) graph.values[id].name = "v" + std::to_string(id);
  }
  return ir::print(graph, nullptr, 1 << 20);
}

/// An element that is not zero for long: reals from -4 to 4, whole numbers of any size, indices from 0 to 2.
void put_random(Tensor& tensor, int64_t at, std::mt19937& random) {
  const float real = std::uniform_real_distribution<float>(-4, 4)(random);
  switch (tensor.dtype()) {
    case DType::f32: tensor.data<float>()[at] = real; break;
    case DType::f16: tensor.data<uint16_t>()[at] = ops::f16_bits(real); break;
    case DType::bf16: tensor.data<uint16_t>()[at] = ops::bf16_bits(real); break;
    case DType::u8:
    case DType::i8: tensor.data<uint8_t>()[at] = static_cast<uint8_t>(random() % 256); break;
    case DType::boolean: tensor.data<uint8_t>()[at] = random() % 2; break;
    case DType::i32: tensor.data<int32_t>()[at] = static_cast<int32_t>(random() % 3); break;
    case DType::i64: tensor.data<int64_t>()[at] = static_cast<int64_t>(random() % 3); break;
    default: throw std::runtime_error("no random values of type " + std::string(name(tensor.dtype())));
  }
}

std::vector<Tensor> random_inputs(const ir::Graph& graph) {
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    Dims dims;
    for (const ir::Dim& dim : *value.shape) dims.push_back(dim.is_constant() ? dim.value() : 2);
    Tensor tensor(value.dtype, dims);
    for (int64_t at = 0; at < tensor.elements(); ++at) put_random(tensor, at, random);
    inputs.push_back(tensor);
  }
  return inputs;
}

void expect_close(const std::vector<Tensor>& expected, const std::vector<Tensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t at = 0; at < expected.size(); ++at) {
    const double tolerance = size_of(expected[at].dtype()) == 2 ? 1e-3 : 2e-6;
    EXPECT_EQ(test::difference(got[at], expected[at], {.element = tolerance, .mean = tolerance / 2}), "")
        << "output " << at;
  }
}

class Golden : public testing::TestWithParam<std::string> {};

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(TENON_SOURCE_DIR) / "tests/passes"))
    if (entry.path().extension() == ".graph") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_P(Golden, GivesTheGraphExpected) {
  const Case golden = read(fs::path(TENON_SOURCE_DIR) / "tests/passes" / (GetParam() + ".graph"));
  ir::Graph before = ir::parse(golden.before), graph = ir::parse(golden.before);
  const bool same = golden.after.find("the same") != std::string::npos;
  const auto record = passes::run_pass(graph, golden.pass);
  EXPECT_EQ(record.changed, !same);
  EXPECT_EQ(canonical(graph), canonical(ir::parse(same ? golden.before : golden.after)));
  const auto inputs = random_inputs(graph);
  before.tidy();
  ops::infer(before);
  expect_close(ops::interpret(before, inputs), ops::interpret(graph, inputs));
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, testing::ValuesIn(files()), [](const auto& info) { return info.param; });

/// Of all lists: the hint for an unknown name has them.
TEST(Pipeline, NamesAreUnique) {
  ir::Graph graph;
  std::string hint;
  try {
    passes::run_pass(graph, "no_such_pass");
  } catch (const Error& error) {
    hint = error.hint();
  }
  const std::string begin = "choose from: ";
  ASSERT_EQ(hint.substr(0, begin.size()), begin);
  std::stringstream stream(hint.substr(begin.size()));
  std::vector<std::string> names;
  for (std::string name; stream >> name;) names.push_back(name.substr(0, name.find(',')));
  for (const auto* list : {&passes::pipeline(), &passes::lowering(), &passes::before_host(), &passes::for_host(),
                           &passes::for_float8(), &passes::for_16_bits(), &passes::for_gpu(), &passes::for_attention()})
    for (const passes::Pass& pass : *list) EXPECT_EQ(std::count(names.begin(), names.end(), pass.name), 1) << pass.name;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Pipeline, RefusesUnknownNames) {
  ir::Graph graph = ir::parse("graph \"g\"\ninput %x : f32[1]\n%y : f32[1] = Relu(%x)\noutput %y as \"y\"");
  EXPECT_THROW(passes::run_pass(graph, "no_such_pass"), Error);
  EXPECT_THROW(passes::optimise(graph, {"no_such_pass"}), Error);
}

/// Weights of so many numbers stand in no golden graph.
TEST(Pipeline, LargePatchesAreProductsOnACpu) {
  for (const bool large : {true, false}) {
    const std::string side = large ? "32" : "16", sides = "[" + side + ", " + side + "]";
    ir::Graph graph =
        ir::parse("graph \"g\"\ninput %x : f32[2,3,64,96]\ninput %w : f32[8,3," + side + "," + side + "]\n%y : f32[2," +
                  (large ? "2,3" : "4,6") + ",8] = Conv(%x, %w) {input_layout=\"NCHW\", kernel_shape=" + sides +
                  ", layout=\"NHWC\", strides=" + sides + "}\noutput %y as \"y\"\n");
    std::vector<Tensor> inputs = random_inputs(graph);
    const ir::ValueId weights = graph.inputs[1];
    graph.inputs.pop_back();
    graph.replace_uses(weights, graph.add_constant("weights", inputs[1]));
    inputs.pop_back();
    graph.tidy();
    ops::infer(graph);
    const ir::Graph before = graph;
    EXPECT_EQ(passes::run_pass(graph, "deep_patches_to_products").changed, large);
    expect_close(ops::interpret(before, inputs), ops::interpret(graph, inputs));
  }
}

/// A long transform is two of small matrices, which no golden graph could hold.
TEST(Pipeline, LongTransformsTakeTwoStages) {
  const std::string text = R"(graph "g"
input %x : f32[3,256,1]
input %c : f32[2,144,2,2]
const %axis : i64[] = {1}
%y : f32[3,256,2] = DFT(%x)
%z : f32[2,144,2,2] = DFT(%c, _, %axis) {inverse=1}
output %y as "y"
output %z as "z"
)";
  ir::Graph before = ir::parse(text), graph = ir::parse(text);
  EXPECT_TRUE(passes::run_pass(graph, "lower_fourier").changed);
  const ir::Graph made = graph;
  EXPECT_EQ(std::count_if(made.nodes.begin(), made.nodes.end(), [](const auto& node) { return node.op == "MatMul"; }),
            4);
  for (const ir::Value& value : made.values)
    if (value.constant) EXPECT_LE(value.constant.elements(), 16 * 16 * 32);
  const auto inputs = random_inputs(graph);
  before.tidy();
  ops::infer(before);
  expect_close(ops::interpret(before, inputs), ops::interpret(graph, inputs));
}

/// Every golden graph computes through all passes what it computed before.
TEST(Pipeline, AdaptsBodiesToAGpu) {
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[2]
input %n : i64[]
const %on : bool[] = {1}
%y : f32[2] = Loop(%n, %on, %x) {body={
  graph "body"
  input %i : i64[]
  input %c : bool[]
  input %a : f32[2]
  const %at : i64[] = {1}
  %one : f32[] = Gather(%a, %at) {axis=0}
  %b : f32[2] = Add(%a, %one)
  output %c as "c"
  output %b as "b"
}, captures=0}
output %y as "y"
)");
  passes::adapt_to_gpu(graph);
  const std::string text = ir::print(graph);
  EXPECT_EQ(text.find("Gather"), std::string::npos) << text;
  EXPECT_NE(text.find("Slice"), std::string::npos) << text;
}

TEST(Pipeline, MultipliesBeforeResizeToSizesThatOnlyRunsKnow) {
  std::string weights = "1.0";
  for (int at = 1; at < 100; ++at) weights += at % 3 ? ", 0.5" : ", -1.0";
  ir::Graph graph = ir::parse(R"(graph "g"
input %x : f32[N,H,W,100]
input %like : f32[N,4,R,C]
const %w : f32[1,100,1,1] = {)" +
                              weights + R"(}
const %first : i64[1] = {0}
const %rows : i64[2] = {2, 3}
const %channels : i64[1] = {100}
%s : i64[4] = Shape(%like)
%n : i64[1] = Gather(%s, %first) {axis=0}
%r : i64[2] = Gather(%s, %rows) {axis=0}
%sizes : i64[4] = Concat(%n, %r, %channels) {axis=0}
%large : f32[N,R,C,100] = Resize(%x, _, _, %sizes) {mode="linear"}
%y : f32[N,R,C,1] = Conv(%large, %w) {layout="NHWC"}
output %y as "y"
)");
  ops::infer(graph);
  const ir::Graph before = graph;
  EXPECT_FALSE(passes::run_pass(graph, "products_before_resize").changed);
  graph.usual = {{"H", 8}, {"W", 8}, {"R", 4}, {"C", 4}};
  EXPECT_FALSE(passes::run_pass(graph, "products_before_resize").changed) << "maps that get smaller";
  graph.usual = {{"H", 8}, {"W", 8}, {"R", 32}, {"C", 32}};
  EXPECT_TRUE(passes::run_pass(graph, "products_before_resize").changed);
  const auto inputs = random_inputs(before);
  expect_close(ops::interpret(before, inputs), ops::interpret(graph, inputs));
}

TEST_P(Golden, ComputesTheSameThroughThePipeline) {
  ir::Graph before = ir::parse(read(fs::path(TENON_SOURCE_DIR) / "tests/passes" / (GetParam() + ".graph")).before);
  ir::Graph after = before;
  before.tidy();
  ops::infer(before);
  passes::optimise(after);
  ir::Graph gpu = after;
  passes::lower(after);
  passes::lower(gpu);
  passes::adapt_to_gpu(gpu);
  passes::run_pass(gpu, "fuse_attention");
  ir::Graph back = gpu;
  passes::return_to_cpu(back);
  const auto inputs = random_inputs(before);
  const auto expected = ops::interpret(before, inputs);
  expect_close(expected, ops::interpret(after, inputs));
  expect_close(expected, ops::interpret(gpu, inputs));
  expect_close(expected, ops::interpret(back, inputs));
}
