// SPDX-License-Identifier: Apache-2.0
#include "quant/export.h"

#include <gtest/gtest.h>

#include "onnx/import.h"
#include "onnx/write.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "compile/calibrate.h"
#include "quant/materialise.h"
#include "support/net.h"

namespace tenon::quant {
namespace {

struct ExportCase {
  test::Folder folder;
  ir::Graph optimised, plain;
  Recipe recipe;
  ExportCase() {
    folder.write("m.onnx", test::small_net());
    optimised = plain = onnx::import_file(folder / "m.onnx");
    passes::optimise(optimised);
    passes::optimise(plain, passes_of_ours());
    test::Samples samples = test::random_samples(4, {4, 3, 8, 8});
    compile::Setting setting;
    setting.options.method = CalibrationMethod::mse;
    setting.options.target_error = 1e9;
    recipe = compile::calibrate(optimised, samples, setting);
  }
  /// The written file, read back.
  ir::Graph written(Style style) {
    ir::Graph graph = plain;
    export_recipe(optimised, recipe, style, graph);
    onnx::write_file(graph, folder / "q.onnx");
    return onnx::import_file(folder / "q.onnx");
  }
};

std::vector<float> results(const ir::Graph& graph, const Tensor& x) {
  const Tensor y = ops::interpret(plan::concretise(graph, {}), {x})[0];
  return {y.values<float>().begin(), y.values<float>().end()};
}

TEST(quant_export, computes_in_every_style_what_the_engine_does) {
  ExportCase one;
  ir::Graph ours = one.optimised;
  materialise(ours, one.recipe);
  const Tensor x = test::random_tensor({1, 3, 8, 8}, 77);
  const std::vector<float> expected = results(ours, x);
  for (const Style style : {Style::standard, Style::onnxruntime, Style::openvino}) {
    const std::vector<float> got = results(one.written(style), x);
    for (size_t at = 0; at < expected.size(); ++at)
      EXPECT_NEAR(got[at], expected[at], style == Style::onnxruntime ? 2e-3 : 1e-5) << static_cast<int>(style);
  }
}

TEST(quant_export, is_symmetric_where_tensorrt_wants_it) {
  ExportCase one;
  const ir::Graph graph = one.written(Style::tensorrt);
  int pairs = 0;
  for (const ir::Node& node : graph.nodes) {
    if (node.op != "QuantizeLinear") continue;
    const Tensor& zero = *graph.constant(node.inputs[2]);
    EXPECT_EQ(zero.dtype(), DType::i8);
    EXPECT_EQ(zero.data<int8_t>()[0], 0);
    ++pairs;
  }
  EXPECT_GE(pairs, 3);
}

TEST(quant_export, keeps_the_names_of_tensors) {
  ExportCase one;
  const auto names = same_tensors(one.optimised, one.plain);
  EXPECT_EQ(names.at("x"), "x");
  int named = 0;
  for (const auto& [ours, theirs] : names) named += theirs == "b" || theirs == "d";
  EXPECT_EQ(named, 2);
}

TEST(quant_export, adds_the_bias_of_a_product_behind_it) {
  ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : f32[2,2]\nconst %w : f32[2,2] = {1.0, 2.0, 3.0, 4.0}\n"
      "%y : f32[2,2] = MatMul(%x, %w) from [\"m\"]\noutput %y as \"y\"\n");
  Recipe recipe;
  recipe.values["x"] = Quantiser::of({-1, 1});
  recipe.anchors["y"] = {{0.5f, 0.5f}, {10, 20}};
  const ir::Graph optimised = graph;
  export_recipe(optimised, recipe, Style::standard, graph);
  for (const ir::Node& node : graph.nodes) {
    if (node.alive && node.op == "MatMul") {
      EXPECT_EQ(node.inputs.size(), 2u);
    }
  }
  const std::vector<float> y = results(graph, Tensor(DType::f32, {2, 2}));
  EXPECT_EQ(y, (std::vector<float>{10, 20, 10, 20}));
}

TEST(quant_export, leaves_to_the_sum_what_the_optimised_bias_has_of_it) {
  const std::string begin =
      "graph \"g\"\ninput %x : f32[2,2]\nconst %w : f32[2,2] = {1.0, 2.0, 3.0, 4.0}\nconst %b : f32[2] = {3.0, 4.0}\n";
  const ir::Graph optimised =
      ir::parse(begin + "%y : f32[2,2] = MatMul(%x, %w, %b) from [\"m\", \"a\"]\noutput %y as \"y\"\n");
  ir::Graph graph = ir::parse(begin +
                              "%m : f32[2,2] = MatMul(%x, %w) from [\"m\"]\n"
                              "%y : f32[2,2] = Add(%m, %b) from [\"a\"]\noutput %y as \"y\"\n");
  Recipe recipe;
  recipe.values["x"] = Quantiser::of({-1, 1});
  recipe.anchors["y"] = {{0.5f, 0.5f}, {3.5f, 4}};
  export_recipe(optimised, recipe, Style::standard, graph);
  const std::vector<float> y = results(graph, Tensor(DType::f32, {2, 2}));
  EXPECT_EQ(y, (std::vector<float>{3.5, 4, 3.5, 4}));
}

TEST(quant_export, refuses_what_is_not_onnx) {
  ExportCase one;
  EXPECT_EQ(test::error_of([&] { onnx::write_file(one.optimised, one.folder / "no.onnx"); }),
            "unsupported: the graph has an operation that ONNX does not have");
  EXPECT_THROW(onnx::write_file(one.plain, "/nofolder/x.onnx"), Error);
}

}  // namespace
}  // namespace tenon::quant
