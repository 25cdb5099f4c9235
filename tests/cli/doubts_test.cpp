// SPDX-License-Identifier: Apache-2.0
#include "cli/doubts.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/net.h"

namespace tenon::cli {
namespace {

using namespace test;

/// A classifier whose first convolution has biases of this size: about 1 for images of 0..1, 255 for those of 0..255.
std::string classifier(float bias) {
  std::vector<float> biases(4, bias);
  return model(input("x", {1, 3, 8, 8}) + random_weights("w1", {4, 3, 3, 3}, 1) + tensor("b1", f32, {4}, raw(biases)) +
               random_weights("w2", {5, 4}, 3) + node("stem", "Conv", {"x", "w1", "b1"}, {"a"}) +
               node("act", "Relu", {"a"}, {"b"}) + node("pool", "GlobalAveragePool", {"b"}, {"e"}) +
               node("flat", "Flatten", {"e"}, {"f"}) + node("head", "Gemm", {"f", "w2"}, {"y"}, integer("transB", 1)) +
               output("y"));
}

/// What is found of one image of 0 to `high`.
std::vector<std::string> found(float bias, float high) {
  const Folder folder;
  const Engine engine = build_net(folder, classifier(bias));
  Doubts doubts(engine, {{"x", {1, 3, 8, 8}}});
  Session session = engine.session(1);
  Tensor input = random_tensor({1, 3, 8, 8}, 7);
  for (int64_t at = 0; at < input.elements(); ++at) input.data<float>()[at] = (input.data<float>()[at] + 0.5f) * high;
  std::vector<Tensor> outputs(1);
  session.run(std::span<const Tensor>(&input, 1), outputs);
  const Tensor before = outputs[0].copy();
  doubts.note({"image.jpg"}, input, outputs, session);
  EXPECT_EQ(std::memcmp(before.data<std::byte>(), outputs[0].data<std::byte>(), before.bytes()), 0);
  return doubts.found();
}

TEST(Doubts, NothingIsSaidOfTheRightScale) {
  EXPECT_TRUE(found(0.5f, 1).empty());
  EXPECT_TRUE(found(100, 255).empty());
}

TEST(Doubts, AScaleThatDoesNotFitTheModelIsNamed) {
  const auto small = found(100, 1);
  ASSERT_EQ(small.size(), 1u);
  EXPECT_NE(small[0].find("too small for this model"), std::string::npos) << small[0];
  EXPECT_NE(small[0].find("--preprocess"), std::string::npos) << small[0];
  const auto large = found(0.05f, 255);
  ASSERT_EQ(large.size(), 1u);
  EXPECT_NE(large[0].find("too large for this model"), std::string::npos) << large[0];
}

TEST(Doubts, EnoughImagesAreEnough) {
  const Folder folder;
  const Engine engine = build_net(folder, classifier(1));
  Doubts doubts(engine, {{"x", {1, 3, 8, 8}}});
  Session session = engine.session(1);
  int images = 0;
  for (; doubts.wants_more() && images < 100; ++images) {
    const Tensor input = random_tensor({1, 3, 8, 8}, 7);
    std::vector<Tensor> outputs(1);
    session.run(std::span<const Tensor>(&input, 1), outputs);
    doubts.note({"image.jpg"}, input, outputs, session);
  }
  EXPECT_LT(images, 100);
}

}  // namespace
}  // namespace tenon::cli
