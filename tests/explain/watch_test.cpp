// SPDX-License-Identifier: Apache-2.0
#include "explain/watch.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "explain/report.h"
#include "explain/switch.h"
#include "ops/op.h"
#include "support/net.h"

namespace tenon::explain {
namespace {

using namespace test;

class Samples : public Calibrator {
 public:
  bool next_batch(CalibrationBatch& batch) override {
    batch.inputs = {{"", random_tensor({1, 8, 8, 8}, static_cast<unsigned>(at_))}};
    return at_++ < 16;
  }

 private:
  int at_ = 0;
};

/// Convolutions that have integer kernels: over one pixel of eight channels.
std::string net() {
  return model(input("x", {1, 8, 8, 8}) + random_weights("w1", {8, 8, 1, 1}, 1) +
               random_weights("w2", {8, 8, 1, 1}, 2) + node("first", "Conv", {"x", "w1"}, {"a"}) +
               node("act", "Relu", {"a"}, {"b"}) + node("second", "Conv", {"b", "w2"}, {"c"}) +
               node("end", "Relu", {"c"}, {"y"}) + output("y"));
}

Engine build_int8(const Folder& folder, std::map<std::string, std::string> keep = {}) {
  BuildOptions options = quick_build();
  options.precision = Precision::int8;
  options.calibrator = std::make_shared<Samples>();
  options.calibration.method = CalibrationMethod::mse;
  options.calibration.target_error = 1e9;
  options.calibration.keep = std::move(keep);
  return build_net(folder, net(), options);
}

std::vector<std::string> left(const Engine& engine, float factor) {
  Tensor x = random_tensor({1, 8, 8, 8}, 99);
  for (int64_t at = 0; at < x.elements(); ++at) x.data<float>()[at] *= factor;
  std::vector<std::string> names;
  for (const Watched& tensor : watch_ranges(plan_of(engine), plan_of(engine).shapes, {x}, 2)) {
    EXPECT_GT(tensor.count, 0) << tensor.name;
    if (tensor.has_left()) names.push_back(tensor.name);
  }
  return names;
}

TEST(Watch, InputsLikeThoseOfTheCalibrationStayInRange) {
  const Folder folder;
  EXPECT_EQ(left(build_int8(folder), 1), std::vector<std::string>{});
}

TEST(Watch, LargerInputsAreNamed) {
  const Folder folder;
  const std::vector<std::string> names = left(build_int8(folder), 3);
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names[0], "x");
}

TEST(Watch, WhatProgramsStoreIsLookedAt) {
  const Folder folder;
  BuildOptions options = quick_build();
  options.precision = Precision::int8;
  options.calibrator = std::make_shared<Samples>();
  options.calibration.method = CalibrationMethod::mse;
  options.calibration.target_error = 1e9;
  const Engine engine = build_net(
      folder,
      model(input("x", {1, 8, 8, 8}) + random_weights("w1", {8, 8, 1, 1}, 1) + random_weights("w2", {8, 8, 1, 1}, 2) +
            node("first", "Conv", {"x", "w1"}, {"a"}) + node("act", "Relu", {"a"}, {"b"}) +
            node("square", "Mul", {"b", "b"}, {"m"}) + node("second", "Conv", {"m", "w2"}, {"c"}) +
            node("end", "Relu", {"c"}, {"y"}) + output("y")),
      options);
  bool found = false;
  for (const Watched& tensor :
       watch_ranges(plan_of(engine), plan_of(engine).shapes, {random_tensor({1, 8, 8, 8}, 99)}, 1))
    if (tensor.name == "m") found = tensor.count == 8 * 8 * 8 && tensor.usual >= 0;
  EXPECT_TRUE(found);
}

TEST(Audit, GoesWithTheEngineFile) {
  const Folder folder;
  const Engine engine = build_int8(folder);
  engine.save(folder / "m.tenon");
  const plan::Evidence &before = plan_of(engine).evidence, after = plan_of(Engine::load(folder / "m.tenon")).evidence;
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(audit_json(after), audit_json(before));
  EXPECT_NE(audit_text(after).find("calibrated on 16 samples"), std::string::npos);
}

TEST(Explain, ShowsWhatEightBitsAddToTheError) {
  const Folder folder;
  const Engine engine = build_int8(folder, {{"second", "fp32"}});
  const Report report = explain(plan_of(engine), {}, 2);
  bool kept = false, integer = false;
  for (const Row& row : report.rows) {
    if (row.op == "QuantizeLinear" || row.op == "DequantizeLinear") continue;
    if (row.name == "second") kept = row.kept == "--keep asks for it" && row.precision == Precision::fp32;
    if (row.name == "first") integer = row.error > 0 && row.precision == Precision::int8;
  }
  EXPECT_TRUE(kept);
  EXPECT_TRUE(integer);
  EXPECT_NE(text(report).find("--keep 'first=fp32'"), std::string::npos);
}

/// What a layer would take in the other arithmetic is measured on an engine that has it there.
TEST(Switch, GoesBothWays) {
  const Folder folder;
  const auto precisions = [](const Engine& engine) {
    std::map<std::string, std::string> found;
    for (const Row& row : explain(plan_of(engine), {}, 2).rows)
      if (row.op.find("Conv") != std::string::npos) found[row.name] = row.arithmetic;
    return found;
  };
  using Found = std::map<std::string, std::string>;
  const auto floating = switched(plan_of(build_int8(folder)));
  ASSERT_TRUE(floating);
  EXPECT_EQ(precisions(*floating), (Found{{"first", "fp32"}, {"second", "fp32"}}));
  const auto integer = switched(plan_of(build_net(folder, net())));
  ASSERT_TRUE(integer);
  EXPECT_EQ(precisions(*integer), (Found{{"first", "int8"}, {"second", "int8"}}));
}

/// A convolution is no peer of a convolution with its pool.
TEST(Switch, ComparesLikeWithLike) {
  Report report;
  for (const char* op : {"Conv", "tenon:Int8Conv", "tenon:ConvMaxPool", "Gemm"}) {
    report.rows.push_back({op, {op}, op});
    report.rows.back().precision = op == std::string("tenon:Int8Conv") ? Precision::int8 : Precision::fp32;
  }
  compare(report, {{"Conv a", {"Conv", "tenon:Int8Conv"}, "direct", 10},
                   {"tenon:Int8Conv b", {"Conv", "tenon:Int8Conv", "tenon:ConvMaxPool"}, "direct", 20},
                   {"tenon:Int8ConvMaxPool c", {"tenon:ConvMaxPool"}, "direct", 30},
                   {"MatMulInteger d", {"Gemm"}, "direct", 40}});
  EXPECT_EQ(report.rows[0].switched, 20);
  EXPECT_EQ(report.rows[1].switched, 10);
  EXPECT_EQ(report.rows[2].switched, 30);
  EXPECT_EQ(report.rows[3].switched, unknown);
}

TEST(Switch, WidensScalesByChannel) {
  plan::Plan plan;
  plan.threads = 1;
  plan.graph = ir::parse(
      "graph \"g\"\ninput %x : u8[1,4,4,2]\nconst %w : i8[2,2,1,1] = {1, 2, 3, 4}\n"
      "const %s : f32[] = {0.5}\nconst %z : u8[] = {3}\nconst %own : f32[2] = {0.5, 8.0}\n"
      "%a : u8[1,4,4,2] = tenon:Int8Conv(%x, %w, _, _, %s, %z, %s, %own, %z) {layout=\"NHWC\"}\n"
      "%b : f32[1,4,4,2] = tenon:Int8Conv(%x, %w, _, %a, %s, %z, %s, _, _, %own, %z) "
      "{layout=\"NHWC\", residual=\"before\"}\n"
      "output %b as \"b\"\n");
  plan.graph.tidy();
  ops::infer(plan.graph);
  const auto floating = switched(plan);
  ASSERT_TRUE(floating);
  Tensor x(DType::u8, {1, 4, 4, 2});
  for (int64_t at = 0; at < x.elements(); ++at) x.data<uint8_t>()[at] = static_cast<uint8_t>(at * 37);
  const Tensor a = ops::interpret(plan.graph, {x})[0], b = ops::interpret(plan_of(*floating).graph, {x})[0];
  for (int64_t at = 0; at < a.elements(); ++at) EXPECT_FLOAT_EQ(a.data<float>()[at], b.data<float>()[at]) << at;
}

}  // namespace
}  // namespace tenon::explain
