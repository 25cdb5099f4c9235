// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "support/net.h"

/// What runs carry from one to the next.
namespace tenon {
namespace {

using namespace test;

constexpr int64_t width = 16, words = 11;

/// A decoder of one layer with a cache: ids (1xS), past keys and values (1xTxD) -> logits (1xSxV) and the caches with S
/// more rows.
std::string decoder() {
  return model(input("ids", {1, -1}, i64) + input("past_k", {1, -2, width}) + input("past_v", {1, -2, width}) +
               random_weights("table", {words, width}, 1) + random_weights("wq", {width, width}, 2) +
               random_weights("wk", {width, width}, 3) + random_weights("wv", {width, width}, 4) +
               random_weights("wo", {width, words}, 5) + node("embed", "Gather", {"table", "ids"}, {"x"}) +
               node("q", "MatMul", {"x", "wq"}, {"q"}) + node("k", "MatMul", {"x", "wk"}, {"k"}) +
               node("v", "MatMul", {"x", "wv"}, {"v"}) +
               node("keys", "Concat", {"past_k", "k"}, {"now_k"}, integer("axis", 1)) +
               node("values", "Concat", {"past_v", "v"}, {"now_v"}, integer("axis", 1)) +
               node("turn", "Transpose", {"now_k"}, {"kt"}, integers("perm", {0, 2, 1})) +
               node("scores", "MatMul", {"q", "kt"}, {"s"}) +
               node("soft", "Softmax", {"s"}, {"p"}, integer("axis", -1)) +
               node("context", "MatMul", {"p", "now_v"}, {"c"}) + node("add", "Add", {"c", "x"}, {"h"}) +
               node("head", "MatMul", {"h", "wo"}, {"logits"}) + output("logits") + output("now_k") + output("now_v"));
}

Tensor ids_of(const std::vector<int64_t>& ids) {
  return Tensor::of<int64_t>(DType::i64, Dims{1, static_cast<int64_t>(ids.size())}, ids);
}

/// The logits of the last of the words, and the best of them.
int64_t best_of(const Tensor& logits) {
  const float* last = logits.data<float>() + (logits.dims()[1] - 1) * words;
  return std::max_element(last, last + words) - last;
}

class Carried : public ::testing::Test {
 protected:
  Engine built(bool carries) {
    BuildOptions options = quick_build();
    options.shapes = {{"ids", {1, 1}}, {"past_k", {1, 4, width}}, {"past_v", {1, 4, width}}};
    if (carries) options.state = {{"now_k", "past_k"}, {"now_v", "past_v"}};
    return build_net(folder_, decoder(), options);
  }
  Folder folder_;
};

TEST_F(Carried, ADecoderWithACacheSaysWhatOneWithoutSays) {
  built(true).save(folder_ / "m.tenon");
  const Engine engine = Engine::load(folder_ / "m.tenon"), plain = built(false);
  ASSERT_EQ(engine.carried().size(), 2u);
  Session session = engine.session(1), whole = plain.session(1);
  State state = engine.state();
  const Tensor nothing(DType::f32, {1, 0, width});
  std::vector<int64_t> text{3, 7, 1}, said{3, 7, 1};
  std::vector<int64_t> next = text;
  for (int round = 0; round < 40; ++round) {
    const std::vector<Tensor> outputs = session.run({{"ids", ids_of(next)}}, state);
    EXPECT_EQ(state.get("past_k").dims()[1], static_cast<int64_t>(text.size()));
    const Tensor all = whole.run({{"ids", ids_of(text)}, {"past_k", nothing}, {"past_v", nothing}})[0];
    const float *got = outputs[0].data<float>() + (outputs[0].dims()[1] - 1) * words,
                *expected = all.data<float>() + (all.dims()[1] - 1) * words;
    for (int64_t at = 0; at < words; ++at) ASSERT_NEAR(got[at], expected[at], 1e-4) << "round " << round;
    ASSERT_EQ(best_of(outputs[0]), best_of(all));
    // Words that vary, so that the text is no repetition.
    next = {(best_of(all) + round) % words};
    text.push_back(next[0]);
  }
}

TEST_F(Carried, StatesGoTheirOwnWays) {
  const Engine engine = built(true);
  Session session = engine.session(1);
  State one = engine.state();
  session.run({{"ids", ids_of({1, 2})}}, one);
  State other = one.fork();
  const std::string a = bytes_of(session.run({{"ids", ids_of({5})}}, one)[0]);
  session.run({{"ids", ids_of({6})}}, one);
  EXPECT_EQ(bytes_of(session.run({{"ids", ids_of({5})}}, other)[0]), a);
  EXPECT_EQ(other.get("past_k").dims()[1], 3);
  EXPECT_EQ(one.get("past_k").dims()[1], 4);
  one.reset();
  State fresh = engine.state();
  EXPECT_EQ(bytes_of(session.run({{"ids", ids_of({4})}}, one)[0]),
            bytes_of(session.run({{"ids", ids_of({4})}}, fresh)[0]));
}

TEST_F(Carried, WhatIsWrongIsNamed) {
  const Engine engine = built(true), plain = built(false);
  Session session = engine.session(1);
  State state = engine.state();
  EXPECT_EQ(error_of([&] { plain.state(); }), "usage: the engine carries nothing from run to run");
  EXPECT_EQ(error_of([&] { state.get("ids"); }), "usage: input \"ids\" is not carried from run to run");
  EXPECT_EQ(error_of([&] { session.run({{"ids", ids_of({1})}, {"past_k", random_tensor({1, 2, width}, 1)}}, state); }),
            "usage: input \"past_k\" is given, and carried by the state");
  Session other = plain.session(1);
  EXPECT_EQ(error_of([&] { other.run({{"ids", ids_of({1})}}, state); }), "usage: the state is another engine's");
  EXPECT_EQ(error_of([&] { state.set("past_k", ids_of({1})); }).substr(0, 40),
            "usage: input \"past_k\" is of type f32, th");
  BuildOptions options = quick_build();
  options.shapes = {{"ids", {1, 1}}, {"past_k", {1, 4, width}}, {"past_v", {1, 4, width}}};
  options.state = {{"logits", "ids"}};
  EXPECT_EQ(error_of([&] { build_net(folder_, decoder(), options); }),
            "usage: output \"logits\" cannot be carried to input \"ids\", f32 goes into i64");
  options.state = {{"nobody", "past_k"}};
  EXPECT_EQ(error_of([&] { build_net(folder_, decoder(), options); }),
            "usage: output \"nobody\" cannot be carried to input \"past_k\", the model has no such output");
}

/// A recurrent state of fixed sizes begins with zeros.
TEST_F(Carried, AStateOfFixedSizesIsKept) {
  BuildOptions options = quick_build();
  options.state = {{"next", "last"}};
  const Engine engine = build_net(
      folder_, model(input("x", {1, 4}) + input("last", {1, 4}) + node("a", "Add", {"x", "last"}, {"next"}) +
                     node("b", "Neg", {"next"}, {"y"}) + output("y") + output("next")),
      options);
  Session session = engine.session(1);
  State state = engine.state();
  const Tensor one = Tensor::of<float>(DType::f32, Dims{1, 4}, std::vector<float>{1, 2, 3, 4});
  for (int round = 1; round <= 5; ++round) {
    const std::vector<Tensor> outputs = session.run({{"x", one}}, state);
    EXPECT_EQ(outputs[0].data<float>()[1], -2.f * static_cast<float>(round));
    EXPECT_EQ(outputs[1].data(), state.get("last").data());
  }
  state.set("last", one);
  EXPECT_EQ(session.run({{"x", one}}, state)[0].data<float>()[3], -8);
}

}  // namespace
}  // namespace tenon
