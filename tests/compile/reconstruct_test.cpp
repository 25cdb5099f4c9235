// SPDX-License-Identifier: Apache-2.0
#include "compile/reconstruct.h"

#include <gtest/gtest.h>

#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "compile/calibrate.h"
#include "quant/materialise.h"
#include "quant/windows.h"
#include "support/net.h"

namespace tenon::compile {
namespace {

struct Shape {
  const char* what;
  Dims weights;
  ir::Attributes attributes;
};

using List = std::vector<int64_t>;

const Shape convolutions[] = {
    {"padded", {4, 6, 3, 3}, {{"pads", List{1, 2, 0, 1}}}},
    {"strided", {4, 6, 3, 2}, {{"strides", List{2, 3}}, {"pads", List{1, 0, 1, 1}}}},
    {"dilated", {4, 6, 2, 2}, {{"dilations", List{2, 3}}}},
    {"grouped", {6, 2, 3, 3}, {{"group", int64_t{3}}, {"pads", List{1, 1, 1, 1}}}},
    {"depthwise", {6, 1, 3, 3}, {{"group", int64_t{6}}, {"pads", List{1, 1, 1, 1}}}},
    {"same_upper", {4, 6, 4, 2}, {{"strides", List{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}},
    {"same_lower", {4, 6, 4, 2}, {{"strides", List{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}}},
    {"valid", {4, 6, 2, 3}, {{"auto_pad", std::string("VALID")}}},
};

/// Of the one node that multiplies x with the weights.
ir::Graph product(const std::string& op, const Tensor& x, const Tensor& weights, const ir::Attributes& attributes) {
  ir::Graph graph;
  graph.inputs = {graph.add_value("x", DType::f32, ir::Shape(x.dims().begin(), x.dims().end()))};
  const ir::ValueId constant = graph.add_constant("w", weights);
  graph.outputs = {graph.apply(op, {graph.inputs[0], constant}, attributes, {op}, "y")};
  graph.output_names = {"y"};
  graph.tidy();
  ops::infer(graph);
  return graph;
}

/// What a window holds, times the weights, is what the node gives there; `place` is where that is among its outputs.
template <class F>
void check_windows(const char* what, const std::string& op, const Tensor& x, const Tensor& weights,
                   const ir::Attributes& attributes, const F& place) {
  const ir::Graph graph = product(op, x, weights, attributes);
  const Tensor y = ops::interpret(graph, {x})[0];
  const quant::WeightView view = quant::weights_of(graph, graph.nodes[0]);
  const quant::Windows windows(graph.nodes[0], view, weights.dims(), x.dims());
  ASSERT_EQ(windows.positions() * view.rows, y.elements()) << what;
  std::vector<float> window(static_cast<size_t>(view.inner));
  for (int64_t at = 0; at < windows.positions(); ++at)
    for (int64_t row = 0; row < view.rows; ++row) {
      windows.gather(x.data<float>(), at, row / (view.rows / view.groups), window.data());
      double sum = 0;
      for (int64_t i = 0; i < view.inner; ++i) sum += double{window[i]} * view.at(row, i);
      ASSERT_NEAR(sum, y.data<float>()[place(at, row, view.rows, windows.positions())], 1e-4)
          << what << " at " << at << ", row " << row;
    }
}

int64_t rows_last(int64_t at, int64_t row, int64_t rows, int64_t) { return at * rows + row; }

TEST(windows, hold_what_a_convolution_multiplies) {
  constexpr int64_t images = 2;
  const auto rows_first = [](int64_t at, int64_t row, int64_t rows, int64_t positions) {
    const int64_t pixels = positions / images;
    return (at / pixels * rows + row) * pixels + at % pixels;
  };
  for (const Shape& shape : convolutions) {
    const Tensor weights = test::random_tensor(shape.weights, 2);
    check_windows(shape.what, "Conv", test::random_tensor({images, 6, 7, 9}, 1), weights, shape.attributes,
                  rows_first);
    ir::Attributes last = shape.attributes;
    last["layout"] = std::string("NHWC");
    check_windows(shape.what, "Conv", test::random_tensor({images, 7, 9, 6}, 1), weights, last, rows_last);
  }
}

TEST(windows, hold_what_products_multiply) {
  check_windows("MatMul", "MatMul", test::random_tensor({2, 3, 5}, 1), test::random_tensor({5, 4}, 2), {}, rows_last);
  check_windows("Gemm", "Gemm", test::random_tensor({3, 5}, 1), test::random_tensor({4, 5}, 2),
                {{"transB", int64_t{1}}}, rows_last);
}

/// Soft blobs: neighbours are alike, as in images.
Tensor image(unsigned seed) {
  constexpr int64_t side = 16;
  const Tensor noise = test::random_tensor({3, 6}, seed);
  Tensor image(DType::f32, {1, 3, side, side});
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x) {
        const float* r = noise.data<float>() + c * 6;
        image.data<float>()[(c * side + y) * side + x] =
            std::sin(6 * r[0] + r[1] * static_cast<float>(x) + r[2] * static_cast<float>(y)) +
            0.5f * std::sin(6 * r[3] + 2 * r[4] * static_cast<float>(x) + 2 * r[5] * static_cast<float>(y));
      }
  return image;
}

struct Net {
  ir::Graph graph;
  Net() {
    const std::string pads = test::integers("pads", {1, 1, 1, 1});
    const test::Folder folder;
    folder.write("m.onnx",
                 test::model(
                     test::input("x", {1, 3, 16, 16}) + test::random_weights("w1", {8, 3, 3, 3}, 1) +
                     test::random_weights("w2", {8, 1, 3, 3}, 2) + test::random_weights("w3", {16, 8, 1, 1}, 3) +
                     test::random_weights("w4", {8, 16, 3, 3}, 4) +
                     test::node("stem", "Conv", {"x", "w1"}, {"a"}, pads) + test::node("r1", "Relu", {"a"}, {"b"}) +
                     test::node("deep", "Conv", {"b", "w2"}, {"c"}, pads + test::integer("group", 8)) +
                     test::node("r2", "Relu", {"c"}, {"d"}) + test::node("point", "Conv", {"d", "w3"}, {"e"}) +
                     test::node("r3", "Relu", {"e"}, {"f"}) + test::node("wide", "Conv", {"f", "w4"}, {"g"}, pads) +
                     test::node("r4", "Relu", {"g"}, {"y"}) + test::output("y")));
    graph = onnx::import_file(folder / "m.onnx");
    passes::optimise(graph);
  }
  quant::Recipe recipe(bool reconstructed) const {
    Setting setting;
    setting.threads = 2;
    setting.options.target_error = 1e9;
    setting.options.reconstruct = reconstructed;
    test::Samples data(32, image);
    return calibrate(graph, data, setting);
  }
  /// Of rounded weights alone, on images that calibration has not seen: the squared error over the power.
  double error(const quant::Recipe& recipe) const {
    ir::Graph rounded = graph;
    quant::round_weights(rounded, recipe);
    double wrong = 0, all = 0;
    for (unsigned seed = 100; seed < 110; ++seed) {
      const Tensor x = image(seed);
      const Tensor a = ops::interpret(graph, {x})[0], b = ops::interpret(rounded, {x})[0];
      for (int64_t at = 0; at < a.elements(); ++at) {
        wrong += std::pow(a.data<float>()[at] - b.data<float>()[at], 2);
        all += std::pow(a.data<float>()[at], 2);
      }
    }
    return wrong / all;
  }
};

TEST(reconstruct, makes_weights_err_less_on_other_images) {
  const Net net;
  const quant::Recipe plain = net.recipe(false), better = net.recipe(true);
  EXPECT_LT(better.error, plain.error);
  EXPECT_LT(net.error(better), 0.8 * net.error(plain));
}

TEST(reconstruct, stays_within_what_can_be_stored) {
  const Net net;
  const quant::Recipe recipe = net.recipe(true);
  int changed = 0, paired = 0;
  for (const ir::Node& node : net.graph.nodes) {
    const auto anchor = recipe.anchors.find(net.graph.value(node.outputs[0]).name);
    if (anchor == recipe.anchors.end()) continue;
    const quant::WeightView view = quant::weights_of(net.graph, node, recipe.factors);
    for (int64_t row = 0; row < view.rows; ++row) {
      const std::vector<int8_t> nearest =
                                    quant::store_row(view, row, anchor->second.scales[row], anchor->second.paired),
                                stored = quant::stored_row(view, row, anchor->second);
      for (size_t i = 0; i < stored.size(); ++i) {
        changed += stored[i] != nearest[i];
        EXPECT_LE(std::abs(stored[i] - nearest[i]), quant::most_change);
        EXPECT_NE(stored[i], -128);
      }
      if (!anchor->second.paired) continue;
      ++paired;
      EXPECT_TRUE(quant::are_paired(view, stored));
    }
  }
  EXPECT_GT(changed, 100);
  EXPECT_GT(paired, 0);
}

}  // namespace
}  // namespace tenon::compile
