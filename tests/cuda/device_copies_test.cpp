// SPDX-License-Identifier: Apache-2.0
// Steps that are copies alone, as one launch.
#include <gtest/gtest.h>

#include <map>

#include "backends/cuda/runtime/compiler.h"
#include "backends/cuda/runtime/timing.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

/// What a decoder appends to its caches: small copies and casts behind each other, which are one launch where none
/// needs what another gives.
TEST(DeviceCopies, SmallOnesTogetherGiveWhatTheyGiveOnTheCpu) {
  if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
  if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  const Folder folder;
  const std::string net =
      model(input("x", {3, 1, 24}) + input("past", {3, 7, 8}) + input("other", {3, 8, 7}) +
                random_weights("w", {24, 24}, 1) + node("all", "MatMul", {"x", "w"}, {"a"}) +
                node("parts", "Split", {"a"}, {"q", "k", "v"}, integer("axis", -1) + integer("num_outputs", 3)) +
                node("turn", "Transpose", {"other"}, {"o"}, integers("perm", {0, 2, 1})) +
                node("keys", "Concat", {"past", "k"}, {"ks"}, integer("axis", 1)) +
                node("values", "Concat", {"v", "o"}, {"vs"}, integer("axis", 1)) +
                node("again", "Concat", {"ks", "vs"}, {"kv"}, integer("axis", -1)) +
                node("back", "Transpose", {"kv"}, {"z"}, integers("perm", {2, 0, 1})) +
                node("sum", "Add", {"ks", "vs"}, {"y"}) + output("y") + output("z") + output("ks"),
            "", 18);
  const Tensor x = random_tensor({3, 1, 24}, 7), past = random_tensor({3, 7, 8}, 8),
               other = random_tensor({3, 8, 7}, 9);
  const std::map<std::string, Tensor> given{{"x", x}, {"past", past}, {"other", other}};
  const auto expected = build_net(folder, net).session().run(given);
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    BuildOptions options = quick_build();
    options.device = "cuda";
    options.precision = precision;
    const double tolerance = precision == Precision::fp32 ? 1e-4 : precision == Precision::fp16 ? 2e-3 : 2e-2;
    expect_near(build_net(folder, net, options).session().run(given), expected, tolerance);
  }
}

/// A level that is expanded to a map beside an image's shuffled pixels.
TEST(DeviceCopies, OneNumberIsReadForAllItsNeighbours) {
  if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
  if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  const Folder folder;
  const std::string net =
      model(input("x", {1, 1, 16, 16}) + input("level", {1, 1, 1, 1}) + numbers("map", {1, 1, 8, 8}) +
                numbers("blocks", {1, 1, 8, 2, 8, 2}) + numbers("planes", {1, 4, 8, 8}) +
                node("split", "Reshape", {"x", "blocks"}, {"b"}) +
                node("turn", "Transpose", {"b"}, {"t"}, integers("perm", {0, 1, 3, 5, 2, 4})) +
                node("joined", "Reshape", {"t", "planes"}, {"p"}) + node("levels", "Expand", {"level", "map"}, {"m"}) +
                node("all", "Concat", {"p", "m"}, {"y"}, integer("axis", 1)) + output("y"),
            "", 18);
  const std::map<std::string, Tensor> given{{"x", random_tensor({1, 1, 16, 16}, 7)},
                                            {"level", random_tensor({1, 1, 1, 1}, 8)}};
  const auto expected = build_net(folder, net).session().run(given);
  BuildOptions options = quick_build();
  options.device = "cuda";
  expect_near(build_net(folder, net, options).session().run(given), expected, 0);
}

}  // namespace
}  // namespace tenon
