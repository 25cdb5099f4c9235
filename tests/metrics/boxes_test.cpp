// SPDX-License-Identifier: Apache-2.0
#include "metrics/boxes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace tenon::metrics {
namespace {

struct Expectation {
  double value = 0;
  std::vector<uint32_t> weights;
};

/// What oracle.py wrote: images, and what pycocotools makes of them.
std::vector<Expectation> read(AveragePrecision& precision) {
  std::ifstream file(TENON_SOURCE_DIR "/tests/metrics/boxes.golden");
  std::vector<Expectation> expectations;
  std::vector<Found> found;
  std::vector<Truth> truth;
  bool open = false;
  const auto finish = [&] {
    if (open) precision.add(found, truth);
    found.clear(), truth.clear();
  };
  for (std::string line, word; std::getline(file, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "image") {
      finish();
      open = true;
    } else if (word == "truth") {
      Truth& one = truth.emplace_back();
      words >> one.class_id >> one.box.x0 >> one.box.y0 >> one.box.x1 >> one.box.y1 >> one.crowd;
    } else if (word == "found") {
      Found& one = found.emplace_back();
      words >> one.class_id >> one.score >> one.box.x0 >> one.box.y0 >> one.box.x1 >> one.box.y1;
    } else {
      finish();
      open = false;
      Expectation& one = expectations.emplace_back();
      words >> one.value;
      for (uint32_t weight; words >> weight;) one.weights.push_back(weight);
    }
  }
  return expectations;
}

TEST(average_precision, is_that_of_pycocotools) {
  AveragePrecision precision;
  const std::vector<Expectation> expectations = read(precision);
  ASSERT_EQ(expectations.size(), 6u);
  ASSERT_EQ(precision.images(), 12);
  EXPECT_NEAR(precision.value(), expectations[0].value, 1e-12);
  for (const Expectation& one : expectations) EXPECT_NEAR(precision.value(one.weights), one.value, 1e-12);
}

TEST(average_precision, prefers_an_object_to_a_crowd_that_covers_more) {
  AveragePrecision precision;
  const Box found{0, 0, 10, 10};
  precision.add({{0, 0.5, found}}, {{0, {0, 0, 10, 10.1}}, {0, {0, 0, 100, 100}, true}});
  EXPECT_DOUBLE_EQ(precision.value(), 1);
}

TEST(average_precision, is_nothing_without_true_boxes) {
  AveragePrecision precision;
  precision.add({{0, 0.5, {0, 0, 9, 9}}}, {});
  EXPECT_EQ(precision.value(), 0);
}

TEST(overlap, is_over_the_union_or_the_box_for_a_crowd) {
  const Box box{0, 0, 10, 10}, wide{0, 0, 20, 10};
  EXPECT_DOUBLE_EQ(overlap(box, wide), 0.5);
  EXPECT_DOUBLE_EQ(overlap(box, wide, true), 1);
  EXPECT_EQ(overlap(box, {10, 0, 20, 10}), 0);
}

}  // namespace
}  // namespace tenon::metrics
