// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <array>

#include "vision/detection.h"
#include "vision/preprocess.h"

/// What tests of detectors share.
namespace tenon::vision {

// A 128x64 image in a 64x64 input: half size, 16 pixels of border above and below.
constexpr Transform transform{0.5, 0.5, 0, 16, 128, 64, 64, 64};
// Cells of the three grids over it.
constexpr int64_t grid = 8 * 8 + 4 * 4 + 2 * 2;

inline void expect_box(const Detection& d, int class_id, float score, const std::array<float, 4>& box) {
  EXPECT_EQ(d.class_id, class_id);
  EXPECT_NEAR(d.score, score, 1e-5);
  for (size_t at = 0; at < 4; ++at) EXPECT_NEAR(d.box[at], box[at], 1e-3) << at;
}

}  // namespace tenon::vision
