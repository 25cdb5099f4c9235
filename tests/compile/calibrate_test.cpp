// SPDX-License-Identifier: Apache-2.0
#include "compile/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "compile/recipe_candidates.h"
#include "compile/value_observer.h"
#include "quant/materialise.h"
#include "support/net.h"

namespace tenon::compile {
namespace {

/// Random samples in batches of `batch`, `count` in all; sample `bad` has a NaN.
class Samples : public Calibrator {
 public:
  explicit Samples(int count, int batch = 1, int bad = -1) : count_(count), batch_(batch), bad_(bad) {}
  bool next_batch(CalibrationBatch& batch) override {
    const int size = std::min(batch_, count_ - at_);
    if (size <= 0) return false;
    Tensor whole(DType::f32, {size, 3, 8, 8});
    batch.names.clear();
    for (int row = 0; row < size; ++row, ++at_) {
      const Tensor one = test::random_tensor({1, 3, 8, 8}, static_cast<unsigned>(100 + at_));
      std::copy_n(one.data<float>(), one.elements(), whole.data<float>() + row * one.elements());
      if (at_ == bad_) whole.data<float>()[row * one.elements() + 5] = NAN;
      batch.names.push_back("image " + std::to_string(at_));
    }
    batch.inputs = {{"", whole}};
    return true;
  }

 private:
  int count_, batch_, bad_, at_ = 0;
};

ir::Graph optimised(int64_t batch = -1) {
  const test::Folder folder;
  folder.write("m.onnx", test::small_net(batch));
  ir::Graph graph = onnx::import_file(folder / "m.onnx");
  passes::optimise(graph);
  return graph;
}

Setting quick() {
  Setting setting;
  setting.threads = 2;
  return setting;
}

TEST(calibrate, gives_a_graph_whose_results_are_near) {
  const ir::Graph graph = optimised();
  Samples samples(16);
  const quant::Recipe recipe = calibrate(graph, samples, quick());
  ir::Graph quantised = graph;
  quant::materialise(quantised, recipe);
  int stored = 0;
  for (const ir::Node& node : quantised.nodes) stored += node.op == "QuantizeLinear";
  EXPECT_EQ(stored, static_cast<int>(recipe.values.size()));
  EXPECT_EQ(recipe.anchors.size(), 3u);
  double wrong = 0, all = 0;
  for (unsigned seed = 1; seed < 20; ++seed) {
    const Tensor x = test::random_tensor({1, 3, 8, 8}, seed);
    const Tensor exact = ops::interpret(plan::concretise(graph, {}), {x})[0];
    const Tensor rounded = ops::interpret(plan::concretise(quantised, {}), {x})[0];
    for (int at = 0; at < 5; ++at) {
      wrong += std::pow(exact.data<float>()[at] - rounded.data<float>()[at], 2);
      all += std::pow(exact.data<float>()[at], 2);
    }
  }
  EXPECT_LT(wrong, all * 1e-3);
  EXPECT_GT(wrong, 0);
}

TEST(calibrate, tries_in_floating_point_what_the_written_graph_computes) {
  const ir::Graph graph = optimised();
  Samples samples(8);
  const quant::Recipe recipe = calibrate(graph, samples, quick());
  ir::Graph written = graph, trial = graph;
  quant::materialise(written, recipe);
  quant::round_weights(trial, recipe);
  ThreadPool thread_pool(2);
  ValueObserver lab(trial, {}, thread_pool);
  for (const auto& [name, quantiser] : recipe.values) lab.watch(name, {.round = &quantiser});
  for (unsigned seed = 1; seed < 6; ++seed) {
    const Tensor x = test::random_tensor({1, 3, 8, 8}, seed);
    const Tensor expected = ops::interpret(plan::concretise(written, {}), {x})[0];
    const Tensor got = lab.run({x})[0];
    for (int at = 0; at < 5; ++at) EXPECT_NEAR(got.data<float>()[at], expected.data<float>()[at], 1e-5);
  }
}

TEST(output_error, is_a_number_whatever_outputs_are) {
  const Tensor exact = test::random_tensor({1, 40}, 1);
  for (const float one : {NAN, INFINITY}) {
    Tensor other = exact.copy();
    EXPECT_EQ(output_error({exact}, {other}), 0);
    other.data<float>()[7] = one;
    EXPECT_GT(output_error({exact}, {other}), 1) << one;
    EXPECT_TRUE(std::isfinite(output_error({exact}, {other})));
  }
}

TEST(calibrate, tells_one_of_the_scales_before_it_has_the_others) {
  const ir::Graph graph = optimised();
  Setting setting = quick();
  std::vector<Scaling> foreseen;
  bool is_among = false;
  size_t reports = 0, before = 0;
  setting.progress = [&](const std::string& stage, double, double) {
    return reports += stage == "choose ranges", true;
  };
  setting.foresee = [&](const Scaling& one) { foreseen.push_back(one), before = reports; };
  setting.prefer = [&](const std::vector<Scaling>& all) {
    for (const Scaling& one : all)
      is_among |= one.what == foreseen.at(0).what && one.recipe.values == foreseen[0].recipe.values;
    EXPECT_GT(all.size(), 1u);
    return size_t{0};
  };
  Samples samples(16);
  const quant::Recipe recipe = calibrate(graph, samples, setting);
  ASSERT_EQ(foreseen.size(), 1u);
  EXPECT_TRUE(is_among);
  EXPECT_EQ(before, 1u);
  EXPECT_GT(reports, 2u);
  setting.foresee = {};
  Samples again(16);
  EXPECT_TRUE(calibrate(graph, again, setting).values == recipe.values) << "it changes nothing";
}

TEST(calibrate, does_not_depend_on_batches_or_threads) {
  const ir::Graph graph = optimised();
  Setting setting = quick();
  Samples one(12, 1);
  const quant::Recipe expected = calibrate(graph, one, setting);
  for (const int batch : {3, 4})
    for (const int threads : {1, 2}) {
      Samples samples(12, 5);
      setting.options.batch = batch;
      setting.threads = threads;
      const quant::Recipe recipe = calibrate(graph, samples, setting);
      EXPECT_TRUE(recipe.values == expected.values) << batch << " " << threads;
      for (const auto& [name, weights] : expected.anchors) {
        const std::vector<float>& bias = recipe.anchors.at(name).bias;
        ASSERT_EQ(bias.size(), weights.bias.size());
        for (size_t at = 0; at < bias.size(); ++at) EXPECT_NEAR(bias[at], weights.bias[at], 1e-5);
      }
    }
}

TEST(calibrate, goes_on_with_the_scales_that_are_preferred) {
  const ir::Graph graph = optimised();
  for (const bool last : {false, true}) {
    Samples samples(16);
    Setting setting = quick();
    setting.options.target_error = INFINITY;
    std::vector<Scaling> offered;
    size_t taken = 0;
    setting.prefer = [&](const std::vector<Scaling>& all) {
      offered = all;
      return taken = last ? all.size() - 1 : 0;
    };
    const quant::Recipe recipe = calibrate(graph, samples, setting);
    ASSERT_GT(offered.size(), 1u);
    EXPECT_EQ(recipe.values, offered[taken].recipe.values);
    EXPECT_EQ(recipe.factors, offered[taken].recipe.factors);
    EXPECT_EQ(recipe.anchors.size(), offered[taken].recipe.anchors.size());
    EXPECT_NE(offered.front().recipe.values, offered.back().recipe.values);
  }
}

/// All numbers are as large as each other.
class Even : public Samples {
 public:
  using Samples::Samples;
  bool next_batch(CalibrationBatch& batch) override {
    if (!Samples::next_batch(batch)) return false;
    Tensor& input = batch.inputs[""];
    for (int64_t at = 0; at < input.elements(); ++at)
      input.data<float>()[at] = std::clamp(input.data<float>()[at] * 8, -0.5f, 0.5f);
    return true;
  }
};

TEST(calibrate, offers_every_tensor_by_mse_and_by_entropy_and_nothing_twice) {
  const ir::Graph graph = optimised();
  Even samples(16);
  Setting setting = quick();
  setting.options.target_error = INFINITY;
  std::vector<Scaling> offered;
  setting.prefer = [&](const std::vector<Scaling>& all) {
    offered = all;
    return size_t{0};
  };
  calibrate(graph, samples, setting);
  for (const CalibrationMethod method : {CalibrationMethod::mse, CalibrationMethod::entropy}) {
    Even again(16);
    setting = quick();
    setting.options.target_error = INFINITY;
    setting.options.method = method;
    const quant::Recipe wanted = calibrate(graph, again, setting);
    EXPECT_EQ(std::count_if(offered.begin(), offered.end(),
                            [&](const Scaling& one) { return one.recipe.values == wanted.values; }),
              1);
  }
}

TEST(calibrate, names_a_sample_that_is_not_finite) {
  const ir::Graph graph = optimised();
  Samples samples(8, 1, 5);
  try {
    calibrate(graph, samples, quick());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_EQ(error.where(), "image 5");
  }
}

TEST(calibrate, names_the_sample_of_a_batch_that_is_not_finite) {
  const ir::Graph graph = optimised();
  Samples samples(8, 2, 6);
  Setting setting = quick();
  setting.options.batch = 5;  // 0..4, then 5..7
  try {
    calibrate(graph, samples, setting);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "image 6");
  }
}

/// Limits hold for the whole process.
struct Limited {
  const Limits before = limits();
  explicit Limited(int64_t bytes) { set_limits({bytes, before.loop_rounds}); }
  ~Limited() { set_limits(before); }
};

TEST(calibrate, takes_smaller_batches_where_memory_is_short) {
  const ir::Graph graph = optimised();
  Setting setting = quick();
  Samples all(12, 1);
  setting.options.batch = 256;
  const quant::Recipe expected = calibrate(graph, all, setting);
  setting.options.batch = 4096;  // some 50 MB
  std::string told;
  setting.logger = Logger([&](Severity, std::string_view text) { (told += text) += "\n"; });
  const Limited limited(int64_t{8} << 20);
  Samples samples(12, 1);
  const quant::Recipe recipe = calibrate(graph, samples, setting);
  EXPECT_TRUE(recipe.values == expected.values);
  EXPECT_NE(told.find("calibrating in batches of 128, as 4096 do not fit 8.0 MiB"), std::string::npos) << told;
}

TEST(calibrate, names_need_and_limit_where_nothing_fits) {
  const ir::Graph graph = optimised(256);  // some 900 kB
  Samples samples(12, 1);
  const Setting setting = quick();
  const Limited limited(300 << 10);
  const std::string error = test::error_of([&] { calibrate(graph, samples, setting); });
  EXPECT_NE(error.find("resource: "), std::string::npos) << error;
  EXPECT_NE(error.find("takes "), std::string::npos) << error;
  EXPECT_NE(error.find("the limit is 300.0 KiB"), std::string::npos) << error;
}

TEST(calibrate, takes_as_many_samples_as_it_is_told) {
  const ir::Graph graph = optimised();
  Setting setting = quick();
  setting.options.count = 5;
  Samples samples(8, 2, 5);  // the sixth is bad
  EXPECT_NO_THROW(calibrate(graph, samples, setting));
}

TEST(calibrate, says_what_does_not_fit) {
  const ir::Graph graph = optimised(2);
  Samples none(0);
  EXPECT_EQ(test::error_of([&] { calibrate(graph, none, quick()); }), "usage: there is no calibration data");
  class Wrong : public Calibrator {
   public:
    bool next_batch(CalibrationBatch& batch) override {
      batch.inputs = {{"x", Tensor(DType::f32, {1, 3, 8, 9})}};
      return true;
    }
  } wrong;
  EXPECT_EQ(test::error_of([&] { calibrate(graph, wrong, quick()); }),
            "usage: the calibration data does not fit the model's input, it is 1x3x8x9, the model takes 2x3x8x8, the "
            "first being the batch");
}

}  // namespace
}  // namespace tenon::compile
