// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "support/net.h"

/// Ranges of sizes that an engine is built for.
namespace tenon {
namespace {

using namespace test;

class Profiles : public ::testing::Test {
 protected:
  static std::vector<int64_t> of(int64_t batch) { return {batch, 3, 8, 8}; }
  static Profile range(const std::string& name, int64_t least, int64_t best, int64_t most) {
    return {name, {{"x", of(least)}}, {{"x", of(best)}}, {{"x", of(most)}}};
  }
  Engine built(const std::vector<Profile>& profiles) {
    BuildOptions options = quick_build();
    options.profiles = profiles;
    return build_net(folder_, small_net(), options);
  }
  static std::string run(Session& session, int64_t batch) {
    return error_of([&] { session.run({{"x", random_tensor({batch, 3, 8, 8}, 1)}}); });
  }
  Folder folder_;
};

/// Sizes as other programs write them: -1 is an axis that the model or engine decides.
TEST_F(Profiles, NegativeSizesAreFree) {
  BuildOptions options = quick_build();
  options.shapes = {{"x", {-1, -1, -1, 8}}};
  EXPECT_EQ(plan_of(build_net(folder_, small_net(), options)).shapes.at("x"), of(1));
  options.shapes = {{"x", {4, -1, 8, 8}}};
  const Engine engine = build_net(folder_, small_net(), options);
  EXPECT_EQ(plan_of(engine).shapes.at("x"), of(4));
  Session session = engine.session(1, {{"x", {-1, 3, -1, -1}}});
  EXPECT_EQ(session.input(0).dims(), Dims({4, 3, 8, 8}));
  options.shapes = {{"x", {2, -1, -1, -1}}};
  EXPECT_EQ(plan_of(retune(engine, options)).shapes.at("x"), of(2));
}

TEST_F(Profiles, AreKeptInTheFile) {
  built({range("small", 1, 1, 2), range("large", 4, 8, 16)}).save(folder_ / "m.tenon");
  const Engine engine = Engine::load(folder_ / "m.tenon");
  const std::vector<Profile> profiles = engine.profiles();
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_EQ(profiles[1].name, "large");
  EXPECT_EQ(profiles[1].min.at("x"), of(4));
  EXPECT_EQ(profiles[1].opt.at("x"), of(8));
  EXPECT_EQ(profiles[1].max.at("x"), of(16));
  EXPECT_EQ(plan_of(engine).steps.size(), 2u);
}

TEST_F(Profiles, RefuseWhatLiesOutside) {
  const Engine engine = built({range("small", 1, 1, 2), range("large", 4, 8, 16)});
  Session session = engine.session(1);
  for (const int64_t batch : {1, 2, 4, 5, 16}) EXPECT_EQ(run(session, batch), "none") << batch;
  EXPECT_EQ(run(session, 3),
            "usage: sizes lie outside of every profile of the engine, input \"x\" has 3 on axis 0, the engine is for 1 "
            "to 2");
  EXPECT_EQ(run(session, 17),
            "usage: sizes lie outside of every profile of the engine, input \"x\" has 17 on axis 0, the engine is for "
            "1 to 2");
  EXPECT_EQ(run(session, 2), "none") << "a refusal leaves the session as it was";
}

TEST_F(Profiles, OfASessionAreItsOwn) {
  const Engine engine = built({range("small", 1, 1, 2), range("large", 4, 8, 16)});
  Session session = engine.session("large", 1);
  EXPECT_EQ(session.input(0).dims(), Dims({8, 3, 8, 8}));
  EXPECT_EQ(run(session, 16), "none");
  EXPECT_EQ(run(session, 1),
            "usage: sizes lie outside of the session's profile, input \"x\" has 1 on axis 0, the engine is for 4 to "
            "16");
  EXPECT_EQ(error_of([&] { engine.session("huge", 1); }), "usage: the engine has no profile \"huge\"");
  const Engine plain = build_net(folder_, small_net());
  EXPECT_EQ(error_of([&] { plain.session("huge", 1); }), "usage: the engine has no profile \"huge\"");
  EXPECT_TRUE(plain.profiles().empty());
}

TEST_F(Profiles, MustBeTheModels) {
  const auto error = [&](Profile profile) { return error_of([&] { built({std::move(profile)}); }); };
  EXPECT_EQ(error(range("", 4, 2, 8)), "usage: the profile cannot be, input \"x\" has on axis 0 4, 2, 8");
  EXPECT_EQ(error({"p", {{"x", {1, 3, 4, 8}}}, {{"x", of(1)}}, {{"x", of(2)}}}),
            "usage: profile \"p\" cannot be, input \"x\" has on axis 2 4, 8, 8; the model expects 8");
  EXPECT_EQ(error({"p", {{"x", {1, 3}}}, {{"x", of(1)}}, {{"x", of(2)}}}),
            "usage: profile \"p\" cannot be, input \"x\" has not the same axes in all its sizes and in the model");
  EXPECT_EQ(error_of([&] { built({range("a", 1, 1, 2), range("a", 1, 1, 2)}); }),
            "usage: profile \"a\" cannot be, two have that name");
}

TEST_F(Profiles, GiveWhatEnginesWithoutGive) {
  const Engine plain = build_net(folder_, small_net()), ranged = built({range("", 1, 4, 8)});
  Session one = plain.session(1), other = ranged.session(1);
  for (const int64_t batch : {1, 3, 8}) {
    const Tensor x = random_tensor({batch, 3, 8, 8}, 2);
    const Tensor expected = one.run({{"x", x}})[0], got = other.run({{"x", x}})[0];
    for (int64_t at = 0; at < expected.elements(); ++at)
      ASSERT_NEAR(got.data<float>()[at], expected.data<float>()[at], 1e-5) << batch;
  }
}

}  // namespace
}  // namespace tenon
