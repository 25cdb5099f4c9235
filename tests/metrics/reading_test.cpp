// SPDX-License-Identifier: Apache-2.0
#include "metrics/reading.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace tenon::metrics {
namespace {

using Text = std::vector<int64_t>;

// Four steps of a blank and two characters.
const std::vector<float> shares{0.1f, 0.7f, 0.2f, 0.5f, 0.4f, 0.1f, 0.3f, 0.1f, 0.6f, 0.6f, 0.2f, 0.2f};

/// Of each text, the sum over all paths that read so.
std::map<Text, double> by_paths(const std::vector<float>& likelihoods, int64_t classes, int64_t blank) {
  const auto steps = static_cast<int64_t>(likelihoods.size()) / classes;
  int64_t paths = 1;
  for (int64_t step = 0; step < steps; ++step) paths *= classes;
  std::map<Text, double> sums;
  for (int64_t path = 0; path < paths; ++path) {
    Text text;
    double likelihood = 1;
    int64_t rest = path, before = -1;
    for (int64_t step = 0; step < steps; ++step, rest /= classes) {
      const int64_t one = rest % classes;
      likelihood *= likelihoods[static_cast<size_t>(step * classes + one)];
      if (one != blank && one != before) text.push_back(one);
      before = one;
    }
    sums[text] += likelihood;
  }
  return sums;
}

TEST(Reading, SumsAllAlignmentsOfAText) {
  for (const int64_t blank : {0, 2}) {
    const Reading reading(shares, 3, blank);
    for (const auto& [text, likelihood] : by_paths(shares, 3, blank))
      EXPECT_NEAR(std::exp(reading.log_likelihood(text)), likelihood, 1e-7) << text.size() << " with blank " << blank;
    EXPECT_EQ(reading.log_likelihood(Text{1, 1, 1}), -INFINITY) << "equal neighbours need blanks between them";
    EXPECT_EQ(reading.log_likelihood(Text{1, 1, 1, 1, 1, 1}), -INFINITY);
  }
}

TEST(Reading, TakesLogitsForTheLikelihoodsThatSoftmaxMakesOfThem) {
  std::vector<float> logits;
  for (size_t at = 0; at < shares.size(); ++at) logits.push_back(std::log(shares[at]) + 3 * static_cast<float>(at / 3));
  const Text text{1, 2};
  EXPECT_NEAR(Reading(logits, 3, 0).log_likelihood(text), Reading(shares, 3, 0).log_likelihood(text), 1e-6);
}

TEST(Reading, CountsEditsByHowSureItIsOfTheTextWithoutThem) {
  // A sure character, a blank, one that is as likely as another, a blank.
  const std::vector<float> half{0, 1, 0, 1, 0, 0, 0.02f, 0.5f, 0.48f, 1, 0, 0};
  const Reading reading(half, 3, 0);
  const Text text{1, 1};
  EXPECT_DOUBLE_EQ(reading.lost(text, text), 0);
  EXPECT_NEAR(reading.lost(text, Text{1, 2}), 0.02 / 0.98, 1e-6);
  EXPECT_NEAR(reading.lost(text, Text{2, 1}), 1, 1e-6);
  EXPECT_NEAR(reading.lost(text, Text{1}), 0.48 / 0.52, 1e-6);
  EXPECT_NEAR(reading.lost(text, Text{2, 2}), 1 + 0.02 / 0.98, 1e-6);
  EXPECT_DOUBLE_EQ(reading.lost(Text{1, 2}, text), 0) << "what it finds likelier is no loss";
  EXPECT_NEAR(reading.lost(text, Text{1, 1, 2, 1, 2, 1}), 4, 1e-6) << "each by itself";
}

TEST(Reading, HasMarginsOfCharactersWhereverTheyStandNearBy) {
  const std::vector<float> late{0.9f, 0.1f, 0, 0.2f, 0.8f, 0, 0.5f, 0.3f, 0.2f, 1, 0, 0};
  const auto found = Reading(shares, 3, 0).margins(Reading(late, 3, 0));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].first, std::log(0.7 / 0.2), 1e-6);
  EXPECT_NEAR(found[0].second, std::log(0.8 / 0.2), 1e-6) << "a step later";
  EXPECT_NEAR(found[1].first, std::log(0.6 / 0.3), 1e-6);
  EXPECT_NEAR(found[1].second, std::log(0.2 / 0.5), 1e-6);
  EXPECT_TRUE(Reading(std::vector<float>{1, 0}, 2, 0).margins(Reading(std::vector<float>{0, 1}, 2, 0)).empty());
}

TEST(Reading, CountsEachEditOfTextsThatHaveLittleInCommon) {
  std::vector<float> even(3 * 200, 1.f / 3);
  const Text one(50, 1), other(40, 2);
  EXPECT_DOUBLE_EQ(Reading(even, 3, 0).lost(one, other), 50);
}

}  // namespace
}  // namespace tenon::metrics
