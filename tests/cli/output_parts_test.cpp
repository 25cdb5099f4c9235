// SPDX-License-Identifier: Apache-2.0
#include "cli/output_parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

namespace tenon::cli {
namespace {

constexpr int64_t samples = 20;
using Make = std::function<float(int64_t sample, int64_t at)>;

Tensor vectors(int64_t size, const Make& make) {
  Tensor output(DType::f32, {samples, size});
  for (int64_t at = 0; at < output.elements(); ++at) output.data<float>()[at] = make(at / size, at % size);
  return output;
}

float wave(int64_t at) { return std::sin(static_cast<float>(at)); }

/// 3D key points in pixels, of crops that differ a little: x and y, and depth on both sides of 0.
float place(int64_t sample, int64_t at) {
  const float shift = 3 * wave(11 * sample + at % 3);
  return at % 3 == 2 ? 20 * wave(at) + shift : 96 + 60 * wave(at) + shift;
}
/// The logit of a face being there: some crops show none.
float flag(int64_t sample) { return sample % 5 ? 12 + 4 * wave(sample) : -6.f; }
float likelihood(int64_t sample) { return 1 / (1 + std::exp(-flag(sample))); }

struct Case {
  OutputParts parts;
  std::vector<Tensor> exact;

  explicit Case(std::vector<Tensor> outputs) : exact(std::move(outputs)) {
    parts.begin({Tensor(DType::f32, {samples, 3, 8, 8})}, exact);
    if (parts.empty()) return;
    for (int64_t row = 0; row < samples; ++row) parts.see(exact, row);
    parts.recognise();
    parts.limit_by({});
  }
  double lost(const std::vector<Tensor>& other) const {
    OutputParts::Parts sums;
    for (int64_t row = 0; row < samples; ++row) parts.add(exact, other, row, sums);
    return parts.lost(sums, {});
  }
};

TEST(output_parts, are_one_where_there_are_no_vectors) {
  const auto cube = [](int64_t size, int64_t width = 4) {
    Tensor output(DType::f32, {samples, size, width});
    for (int64_t at = 0; at < output.elements(); ++at) output.data<float>()[at] = 9 * wave(at);
    return output;
  };
  EXPECT_TRUE(Case({cube(6), cube(5)}).parts.empty());
  EXPECT_TRUE(Case({cube(30, 16), cube(30, 1)}).parts.empty());  // boxes and their scores
  EXPECT_EQ(Case({cube(30, 16), vectors(7, place)}).parts.kind(), OutputKind::signal);
}

TEST(output_parts, are_told_by_their_numbers) {
  const auto kind = [](const Tensor& first) {
    return Case({first, vectors(1, [](int64_t sample, int64_t) { return flag(sample); })}).parts.kind();
  };
  EXPECT_EQ(kind(vectors(63, place)), OutputKind::coordinates);
  EXPECT_EQ(kind(vectors(15, place)), OutputKind::coordinates);
  EXPECT_EQ(kind(vectors(6, place)), OutputKind::signal);
  EXPECT_EQ(kind(vectors(1, [](int64_t sample, int64_t) { return flag(sample); })), OutputKind::decisions);
  EXPECT_EQ(kind(vectors(1, [](int64_t sample, int64_t) { return likelihood(sample); })), OutputKind::decisions);
  EXPECT_EQ(kind(vectors(1, [](int64_t sample, int64_t) { return 40 + 9 * wave(sample); })), OutputKind::amounts);
  EXPECT_EQ(kind(vectors(1, [](int64_t sample, int64_t) { return static_cast<float>(sample % 7); })),
            OutputKind::signal);
  EXPECT_EQ(
      kind(vectors(2, [](int64_t sample, int64_t at) { return at ? likelihood(sample) : 1 - likelihood(sample); })),
      OutputKind::decisions);
  const auto embedding = [](int64_t sample, int64_t at) { return 3 * wave(sample * 64 + at); };
  EXPECT_EQ(kind(vectors(64, embedding)), OutputKind::embedding);
}

TEST(output_parts, tell_one_number_a_sample_without_others) {
  EXPECT_EQ(Case({vectors(1, [](int64_t sample, int64_t) { return likelihood(sample); })}).parts.metric(),
            "expected agreement with fp32's decisions");
  EXPECT_EQ(Case({vectors(1, [](int64_t sample, int64_t) { return 40 + 9 * wave(sample); })}).parts.metric(),
            "nearness to fp32's numbers");
}

TEST(output_parts, have_limits_of_their_own) {
  const Case one({vectors(63, place), vectors(1, [](int64_t sample, int64_t) { return flag(sample); })});
  EXPECT_EQ(one.parts.metric(), "nearness to fp32's coordinates, and as much of the others' limits");
  const auto with = [&](float pixels, float logit) {
    return one.lost({vectors(63, [&](int64_t sample, int64_t at) { return place(sample, at) + pixels * wave(7 * at); }),
                     vectors(1, [&](int64_t sample, int64_t) { return flag(sample) + logit * wave(3 * sample); })});
  };
  EXPECT_EQ(with(0, 0), 0);
  const double points = with(1, 0);  // of places that deviate by about 50
  EXPECT_GT(points, 0.01);
  EXPECT_LT(points, 0.02);
  // A logit that is sure says the same with other digits, whatever part of itself they are.
  EXPECT_EQ(with(0, 2), 0);
  EXPECT_DOUBLE_EQ(with(1, 2), points);
  // One that turns is lost: within 0.75 points, where places may lose 1.
  EXPECT_GT(with(0, 15), 0.1);
}

TEST(output_parts, count_numbers_beside_what_samples_differ_by) {
  const Make amount = [](int64_t sample, int64_t) { return 40 + 9 * wave(sample); };
  const Case one({vectors(1, amount)});
  const double lost = one.lost({vectors(1, [&](int64_t sample, int64_t at) { return amount(sample, at) + 0.09f; })});
  EXPECT_NEAR(lost, 0.09 / 9 * std::sqrt(2), 0.002);
  EXPECT_EQ(one.lost({vectors(1, [](int64_t, int64_t) { return NAN; })}), 1);
}

/// Rows of 100 anchors: a score of each of `kinds` classes, high at two of them, and four offsets.
float score(int64_t sample, int64_t anchor, int64_t kind) {
  const bool is_there = anchor % 50 == sample % 50 && kind == 0;
  return is_there ? 0.8f + 0.1f * wave(anchor) : 0.01f + 0.01f * wave(anchor + kind);
}
float logit(float share) { return std::log(share / (1 - share)); }

Tensor rows(int64_t channels, const std::function<float(int64_t sample, int64_t anchor, int64_t channel)>& make) {
  Tensor output(DType::f32, {samples, 100, channels});
  for (int64_t at = 0; at < output.elements(); ++at)
    output.data<float>()[at] = make(at / channels / 100, at / channels % 100, at % channels);
  return output;
}
float offset(int64_t sample, int64_t anchor, int64_t channel) { return wave(7 * sample + 3 * anchor + channel); }

TEST(output_parts, count_where_scores_are_high) {
  const std::string metric = "share of fp32's signal where it scores, and as much of the others' limits";
  const auto logits = [](int64_t sample, int64_t anchor, int64_t kind) { return logit(score(sample, anchor, kind)); };
  const auto softmax = [](int64_t sample, int64_t anchor, int64_t kind) {
    return kind == 0 ? 1 - score(sample, anchor, 0) : score(sample, anchor, 0);
  };
  const std::vector<Tensor> scores = {rows(3, score), rows(3, logits), rows(2, softmax), rows(1, score)};
  for (const Tensor& one : scores) {
    const Case both({one, rows(4, offset)});
    EXPECT_EQ(both.parts.metric(), metric);
    EXPECT_EQ(both.lost(both.exact), 0);
    const auto moved = [&](bool where_high) {
      return both.lost({one, rows(4, [&](int64_t sample, int64_t anchor, int64_t channel) {
                          const bool is_high = score(sample, anchor, 0) > 0.5f;
                          return offset(sample, anchor, channel) + (is_high == where_high ? 0.3f : 0.f);
                        })});
    };
    EXPECT_LT(moved(false), 0.01);  // although they are most
    EXPECT_GT(moved(true), 0.1);
  }
  // Maps with channels in front are read as well, and scores that are lost are seen.
  const auto turned = [](const Tensor& from) {
    const int64_t channels = from.dims()[2];
    Tensor to(DType::f32, {samples, channels, 10, 10});
    for (int64_t at = 0; at < to.elements(); ++at)
      to.data<float>()[at] =
          from.data<float>()[at / channels / 100 * channels * 100 + at % 100 * channels + at / 100 % channels];
    return to;
  };
  const Case maps({turned(rows(4, offset)), turned(rows(3, score))});
  EXPECT_EQ(maps.parts.metric(), metric);
  EXPECT_GT(maps.lost({maps.exact[0], turned(rows(3, [](int64_t, int64_t, int64_t) { return 0.01f; }))}), 0.9);
  EXPECT_EQ(maps.lost({maps.exact[0], rows(3, score)}), 1);
  // Images of another size have other positions.
  Case sizes({rows(3, score), rows(4, offset)});
  const auto half = [](const Tensor& all, int64_t channels) {
    Tensor some(DType::f32, {samples, 50, channels});
    for (int64_t at = 0; at < some.elements(); ++at)
      some.data<float>()[at] = all.data<float>()[at / channels / 50 * channels * 100 + at % (channels * 50)];
    return some;
  };
  sizes.exact = {half(sizes.exact[0], 3), half(sizes.exact[1], 4)};
  EXPECT_EQ(sizes.lost(sizes.exact), 0);
  EXPECT_EQ(sizes.lost({sizes.exact[0], rows(4, offset)}), 1);
}

/// How sure a pitch is: speech and pauses along 40 steps.
float sureness(int64_t sample, int64_t at) { return 1 / (1 + std::exp(-9 * std::sin(0.3f * (at + 7 * sample)) - 3)); }
float pitch(int64_t sample, int64_t at) { return sureness(sample, at) > 0.2f ? 200 + 40 * wave(at / 9 + sample) : 900; }

TEST(output_parts, count_where_a_track_is_sure) {
  const Case track({vectors(40, pitch), vectors(40, sureness)});
  EXPECT_EQ(track.parts.kind(), OutputKind::scored);
  const auto off = [&](bool where_sure) {
    const Make make = [&](int64_t sample, int64_t at) {
      return pitch(sample, at) + ((sureness(sample, at) > 0.8f) == where_sure ? 20 * wave(3 * at) : 0.f);
    };
    return track.lost({vectors(40, make), vectors(40, sureness)});
  };
  EXPECT_GT(off(true), 0.02);
  EXPECT_LT(off(false), 0.01);
  // Likelihoods of classes have no order.
  const Case labels(
      {vectors(40, pitch), vectors(40, [](int64_t s, int64_t at) { return wave(2 * at + s) > 0.4f ? 0.9f : 0.01f; })});
  EXPECT_NE(labels.parts.kind(), OutputKind::scored);
}

TEST(output_parts, are_no_scores_where_most_positions_have_some) {
  const auto many = [](int64_t sample, int64_t anchor, int64_t) { return 0.5f + 0.4f * wave(sample + anchor); };
  const auto none = [](int64_t, int64_t anchor, int64_t) { return 0.01f + 0.01f * wave(anchor); };
  for (const Tensor& one : {rows(1, many), rows(1, none)})
    EXPECT_EQ(Case({one, rows(4, offset)}).parts.metric(), "share of fp32's signal in the outputs");
  // Nor where there is nothing else at their positions.
  EXPECT_EQ(Case({rows(1, score), rows(3, score)}).parts.metric(), "share of fp32's signal in the outputs");
}

}  // namespace
}  // namespace tenon::cli
