// SPDX-License-Identifier: Apache-2.0
#include "quant/audit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "onnx/import.h"
#include "passes/pass.h"
#include "quant/cache.h"
#include "compile/calibrate.h"
#include "support/net.h"

namespace tenon::quant {
namespace {

constexpr int64_t side = 16;

/// An image of soft blobs in 0..1, another for each seed.
Tensor blobs(unsigned seed) {
  Tensor image(DType::f32, {1, 3, side, side});
  const Tensor noise = test::random_tensor({12}, seed);
  const float* r = noise.data<float>();
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x)
        image.data<float>()[(c * side + y) * side + x] =
            0.5f + 0.4f * std::sin(r[c] * 9 + (r[3] + r[4 + c]) * static_cast<float>(x) +
                                   (r[7] + r[8 + c]) * static_cast<float>(y));
  return image;
}

Tensor scaled(const Tensor& image, float factor, float mean = 0) {
  Tensor result = image.copy();
  for (int64_t at = 0; at < result.elements(); ++at)
    result.data<float>()[at] = result.data<float>()[at] * factor - mean;
  return result;
}

std::vector<Image> images(int count, const std::function<Tensor(int)>& make) {
  std::vector<Image> list;
  for (int at = 0; at < count; ++at) {
    list.push_back(image_of(make(at).data<float>(), 3, side, side, true));
    list.back().name = "image " + std::to_string(at);
  }
  return list;
}

std::vector<std::string> named(const std::vector<plan::Suspicion>& suspicions) {
  std::vector<std::string> list;
  for (const plan::Suspicion& suspicion : suspicions) list.push_back(suspicion.what);
  return list;
}

using Names = std::vector<std::string>;

TEST(Suspicions, AreNoneForDifferentImages) {
  EXPECT_EQ(named(suspicions_of(images(16, [](int at) { return blobs(static_cast<unsigned>(at)); }))), Names{});
  EXPECT_EQ(named(suspicions_of({})), Names{});
}

TEST(Suspicions, NameDarkImages) {
  for (const float white : {1.f, 255.f})
    EXPECT_EQ(named(suspicions_of(
                  images(16, [&](int at) { return scaled(blobs(static_cast<unsigned>(at)), 0.06f * white); }))),
              Names{"the images are nearly black"})
        << white;
}

TEST(Suspicions, KnowBytesLessTheirMean) {
  const auto bytes = [](float light) {
    return named(
        suspicions_of(images(16, [&](int at) { return scaled(blobs(static_cast<unsigned>(at)), 255 * light, 117); })));
  };
  EXPECT_EQ(bytes(1), Names{});
  EXPECT_EQ(bytes(0.1f), Names{"the images are nearly black"});
}

TEST(Suspicions, BarsAroundImagesSayNothing) {
  const auto barred = [](int at) {
    Tensor image = scaled(blobs(static_cast<unsigned>(at)), 0.06f);
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < side; ++y)
        for (int64_t x = 0; x < side; ++x)
          if (y < 3 || y >= side - 3) image.data<float>()[(c * side + y) * side + x] = 114 / 255.f;
    return image;
  };
  EXPECT_EQ(named(suspicions_of(images(16, barred))), Names{"the images are nearly black"});
}

TEST(Suspicions, NameAScaleThatWasTakenTwice) {
  EXPECT_EQ(
      named(suspicions_of(images(16, [](int at) { return scaled(blobs(static_cast<unsigned>(at)), 1 / 255.f); }))),
      Names{"the images look scaled twice"});
}

TEST(Suspicions, NameAMeanOfBytesThatWasTakenFromLess) {
  EXPECT_EQ(named(suspicions_of(images(16, [](int at) { return scaled(blobs(static_cast<unsigned>(at)), 1, 117); }))),
            Names{"the images look scaled before a mean of bytes was taken"});
}

TEST(Suspicions, TakePlanesOfSmallNumbersForNoDarkImages) {
  const auto planes = [](float most) {
    std::vector<Image> list;
    for (int at = 0; at < 16; ++at) {
      const Tensor image = scaled(blobs(static_cast<unsigned>(at)), most);
      list.push_back(image_of(image.data<float>(), 1, side, side, true));
    }
    return named(suspicions_of(list));
  };
  EXPECT_EQ(planes(12), Names{});  // the loudness of tones
  EXPECT_EQ(planes(0.06f), Names{"the images are nearly black"});
}

TEST(Suspicions, NameImagesOfOneScene) {
  const auto found = suspicions_of(images(8, [](int at) {
    Tensor image = blobs(1);
    image.data<float>()[at * 7] = 1;
    return scaled(image, 1 - 0.01f * static_cast<float>(at));
  }));
  EXPECT_EQ(named(found), Names{"the 8 images show one scene"});
}

TEST(Suspicions, NameImagesOfOneColour) {
  const auto found = suspicions_of(images(8, [](int at) {
    if (at != 3) return blobs(static_cast<unsigned>(at));
    Tensor flat = blobs(1);
    std::fill_n(flat.data<float>(), flat.elements(), 0.5f);
    return flat;
  }));
  ASSERT_EQ(named(found), Names{"1 of 8 images hold one colour alone"});
  EXPECT_EQ(found[0].why, "image 3");
}

TEST(Certainty, IsHigherForAListWithOneHighScore) {
  const Tensor flat = Tensor::of<float>(DType::f32, {1, 4}, std::vector<float>{1, 2, 1, 2});
  const Tensor sure = Tensor::of<float>(DType::f32, {1, 4}, std::vector<float>{0, 0, 9, 0});
  EXPECT_GT(certainty({sure}), certainty({flat}));
}

TEST(Certainty, LeavesBoxesOutOfScoreMaps) {
  // Feature 0 is a coordinate, feature 1 a score.
  Tensor output(DType::f32, {1, 2, 30});
  for (int64_t at = 0; at < 30; ++at) output.data<float>()[at] = 100, output.data<float>()[30 + at] = 0.25f;
  EXPECT_NEAR(certainty({output}), 0.25, 1e-6);
}

TEST(Certainty, TakesAMapOfOnePlaceForAList) {
  const Tensor flat = Tensor::of<float>(DType::f32, {1, 4, 1, 1}, std::vector<float>{0.25f, 0.26f, 0.25f, 0.24f});
  const Tensor sure = Tensor::of<float>(DType::f32, {1, 4, 1, 1}, std::vector<float>{0, 0, 1, 0});
  EXPECT_GT(certainty({sure}), certainty({flat}));
}

TEST(Certainty, OfProbabilitiesIsThatOfWhatTheSoftmaxReads) {
  const std::vector<float> scores{3, 1, 0.5f, -2};
  std::vector<float> shares;
  float sum = 0;
  for (const float score : scores) sum += std::exp(score);
  for (const float score : scores) shares.push_back(std::exp(score) / sum);
  EXPECT_NEAR(certainty({Tensor::of<float>(DType::f32, {1, 4}, shares)}),
              certainty({Tensor::of<float>(DType::f32, {1, 4}, scores)}), 1e-5);
}

TEST(Certainty, IsThatOfOneImageOfABatch) {
  const Tensor both = Tensor::of<float>(DType::f32, {2, 4}, std::vector<float>{1, 2, 1, 2, 0, 0, 9, 0});
  const Tensor flat = Tensor::of<float>(DType::f32, {1, 4}, std::vector<float>{1, 2, 1, 2});
  const Tensor sure = Tensor::of<float>(DType::f32, {1, 4}, std::vector<float>{0, 0, 9, 0});
  EXPECT_EQ(certainty({both}, 0, 2), certainty({flat}));
  EXPECT_EQ(certainty({both}, 1, 2), certainty({sure}));
}

class Source : public Calibrator {
 public:
  explicit Source(int count, float factor = 1, bool growing = false, float mean = 0)
      : count_(count), factor_(factor), mean_(mean), growing_(growing) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == count_) return false;
    const float growth = growing_ ? static_cast<float>(at_ + 1) / static_cast<float>(count_) : 1;
    batch.inputs = {{"", scaled(blobs(static_cast<unsigned>(at_)), factor_ * growth, mean_)}};
    batch.names = {"image " + std::to_string(at_++)};
    return true;
  }

 private:
  int count_, at_ = 0;
  float factor_, mean_;
  bool growing_;
};

/// A convolution whose biases say that it wants values of 0..1, and another. With `third` far below zero a channel of
/// the first is always zero.
ir::Graph net(float third) {
  using namespace test;
  const std::vector<float> bias{0.5f, -0.4f, third, 0.6f};
  const Folder folder;
  folder.write("m.onnx",
               model(input("x", {1, 3, side, side}) + random_weights("w1", {4, 3, 3, 3}, 1) +
                     tensor("b1", f32, {4}, raw(bias)) + random_weights("w2", {5, 4, 1, 1}, 2) +
                     node("first", "Conv", {"x", "w1", "b1"}, {"a"}) + node("act", "Relu", {"a"}, {"b"}) +
                     node("second", "Conv", {"b", "w2"}, {"c"}) + node("end", "Relu", {"c"}, {"y"}) + output("y")));
  ir::Graph graph = onnx::import_file(folder / "m.onnx");
  passes::optimise(graph);
  return graph;
}

/// A classifier with one bias.
ir::Graph classifier(float bias) {
  using namespace test;
  const std::vector<float> biases{0, bias, 0, 0, 0, 0, 0, 0};
  const Folder folder;
  folder.write("m.onnx",
               model(input("x", {1, 3, side, side}) + random_weights("w1", {8, 3, 3, 3}, 1) +
                     tensor("b1", f32, {8}, raw(biases)) + random_weights("w2", {5, 8, 3, 3}, 2) +
                     node("first", "Conv", {"x", "w1", "b1"}, {"a"}) + node("act", "Relu", {"a"}, {"b"}) +
                     node("second", "Conv", {"b", "w2"}, {"c"}) + node("pool", "GlobalMaxPool", {"c"}, {"d"}) +
                     node("end", "Flatten", {"d"}, {"y"}) + output("y")));
  ir::Graph graph = onnx::import_file(folder / "m.onnx");
  passes::optimise(graph);
  return graph;
}

Names suspicions_of_classifier(float bias) {
  Source source(8, 255);
  compile::Setting setting;
  setting.threads = 2;
  setting.options.method = CalibrationMethod::mse;
  setting.options.target_error = 1e9;
  return named(compile::calibrate(classifier(bias), source, setting).evidence.suspicions);
}

plan::Evidence evidence(int count, float factor = 1, std::map<std::string, std::string> keep = {}, float third = 0.3f,
                        bool growing = false, float mean = 0) {
  Source source(count, factor, growing, mean);
  compile::Setting setting;
  setting.threads = 2;
  setting.options.method = CalibrationMethod::mse;
  setting.options.target_error = 1e9;
  setting.options.keep = std::move(keep);
  return compile::calibrate(net(third), source, setting).evidence;
}

TEST(Audit, HoldsRangesSourcesSaturationAndDeadChannels) {
  const plan::Evidence all = evidence(16, 1, {}, -20);
  EXPECT_EQ(all.samples, 16);
  const auto input = std::find_if(all.tensors.begin(), all.tensors.end(), [](const auto& t) { return t.name == "x"; });
  ASSERT_NE(input, all.tensors.end());
  float low = 1, high = 0;
  std::string lowest, highest;
  for (int at = 0; at < 16; ++at) {
    const Tensor image = blobs(static_cast<unsigned>(at));
    for (const float value : image.values<float>()) {
      if (value < low) low = value, lowest = "image " + std::to_string(at);
      if (value > high) high = value, highest = "image " + std::to_string(at);
    }
  }
  EXPECT_FLOAT_EQ(static_cast<float>(input->low), low);
  EXPECT_FLOAT_EQ(static_cast<float>(input->high), high);
  EXPECT_EQ(input->low_from, lowest);
  EXPECT_EQ(input->high_from, highest);
  EXPECT_LT(input->saturated, 0.01);
  int64_t dead = 0;
  for (const plan::TensorEvidence& tensor : all.tensors) dead += tensor.dead;
  EXPECT_EQ(dead, 1);
}

TEST(Audit, ValuesOfAnotherScaleThanTheModelsAreNamed) {
  EXPECT_EQ(named(evidence(8).suspicions), Names{});
  EXPECT_EQ(named(evidence(8, 255).suspicions), Names{"the images' values look too large for this model"});
  EXPECT_EQ(named(evidence(8, 255, {}, 0.3f, false, 117).suspicions), Names{});  // meant to be bytes
}

TEST(Audit, AScaleThatChangesNoClassIsNoFault) {
  EXPECT_EQ(suspicions_of_classifier(0.02f), Names{});
  EXPECT_EQ(suspicions_of_classifier(2.5f), Names{"the images' values look too large for this model"});
}

/// A map of scores that rise with the last colour.
ir::Graph blueness() {
  using namespace test;
  const std::vector<float> same{1, 0, 0, 0, 1, 0, 0, 0, 1}, last{0, 0, 1, 0, 0, 2};
  const Folder folder;
  folder.write("m.onnx", model(input("x", {2, 3, side, side}) + tensor("w1", f32, {3, 3, 1, 1}, raw(same)) +
                               tensor("w2", f32, {2, 3, 1, 1}, raw(last)) + node("one", "Conv", {"x", "w1"}, {"a"}) +
                               node("act", "Relu", {"a"}, {"b"}) + node("two", "Conv", {"b", "w2"}, {"c"}) +
                               node("scores", "Sigmoid", {"c"}, {"y"}) + output("y")));
  ir::Graph graph = onnx::import_file(folder / "m.onnx");
  passes::optimise(graph);
  return graph;
}

/// Two images a batch, with their first and last colours dimmed, and a mean taken from the first.
class Tinted : public Calibrator {
 public:
  Tinted(int batches, float first, float last, float mean, bool one_scene)
      : batches_(batches), first_(first), last_(last), mean_(mean), one_scene_(one_scene) {}
  bool next_batch(CalibrationBatch& batch) override {
    if (at_ == batches_) return false;
    Tensor both(DType::f32, {2, 3, side, side});
    batch.names.clear();
    for (int image = 0; image < 2; ++image) {
      const int number = 2 * at_ + image;
      const Tensor one = blobs(one_scene_ ? 1 : static_cast<unsigned>(number));
      constexpr int64_t pixels = side * side;
      for (int64_t at = 0; at < 3 * pixels; ++at)
        both.data<float>()[image * 3 * pixels + at] = one.data<float>()[at] * (at < pixels       ? first_
                                                                               : at < 2 * pixels ? 1
                                                                                                 : last_) -
                                                      (at < pixels ? mean_ : 0);
      batch.names.push_back("image " + std::to_string(number));
    }
    ++at_;
    batch.inputs = {{"", std::move(both)}};
    return true;
  }

 private:
  int batches_, at_ = 0;
  float first_, last_, mean_;
  bool one_scene_;
};

TEST(Audit, NamesColoursThatTheModelIsSurerOfExchanged) {
  const auto found = [](int batches, float first, float last, float mean = 0, bool one_scene = false) {
    Tinted source(batches, first, last, mean, one_scene);
    compile::Setting setting;
    setting.threads = 2;
    setting.options.method = CalibrationMethod::mse;
    setting.options.target_error = 1e9;
    return named(compile::calibrate(blueness(), source, setting).evidence.suspicions);
  };
  EXPECT_EQ(found(10, 0.8f, 0.4f), Names{"red and blue look exchanged"});
  EXPECT_EQ(found(10, 0.4f, 0.8f), Names{});
  EXPECT_EQ(found(2, 0.8f, 0.4f), Names{});  // may be by chance
  // The colour is lighter by half of what the mean took from it, where means are exchanged as well.
  EXPECT_EQ(found(10, 0.8f, 0.4f, 0.45f), Names{"red and blue look exchanged"});
  EXPECT_EQ(found(10, 0.4f, 0.4f, 0.45f), Names{});
  // Frames of one scene are one observation.
  EXPECT_EQ(found(10, 0.8f, 0.4f, 0, true), Names{"the 20 images show one scene"});
}

TEST(Audit, CoverageEndsAtTheLastSample) {
  const plan::Evidence all = evidence(11, 1, {}, 0.3f, true);
  std::vector<int64_t> counts;
  for (const plan::Coverage& point : all.coverage) counts.push_back(point.samples);
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 2, 4, 8, 11}));
  EXPECT_EQ(all.coverage.back().change, 0);
  EXPECT_GT(all.coverage.front().change, 0.5);
  EXPECT_EQ(all.enough(), 11);
}

TEST(Audit, EveryLayerHasAnErrorOrAReason) {
  const plan::Evidence all = evidence(8, 1, {{"second", "fp32"}});
  ASSERT_EQ(all.layers.size(), 2u);
  for (const plan::LayerEvidence& layer : all.layers) {
    EXPECT_EQ(layer.integer, layer.node == "first");
    if (layer.node == "second") EXPECT_EQ(layer.reason, "--keep asks for it");
    else EXPECT_GT(layer.error, 0);
  }
}

TEST(Audit, AKeptNodeThatIsNoneIsNamed) {
  EXPECT_EQ(test::error_of([] {
              evidence(2, 1, {{"act2", "fp32"}});
            }),
            "usage: no layer that could be in INT8 is called \"act2\"");
}

TEST(Audit, ComesBackFromJson) {
  const plan::Evidence all = evidence(8);
  EXPECT_EQ(plan::json_of(plan::evidence_of(plan::json_of(all))), plan::json_of(all));
  EXPECT_FALSE(all.empty());
}

}  // namespace
}  // namespace tenon::quant
