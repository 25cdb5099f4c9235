// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {
namespace {

ConvShape square_3x3(int64_t batch, int64_t size, int64_t channels) {
  ConvShape s{};
  s.batch = batch, s.in_h = s.in_w = s.out_h = s.out_w = size, s.in_c = s.out_c = channels;
  s.kernel_h = s.kernel_w = 3, s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = 1;
  s.pad_top = s.pad_left = s.groups = 1;
  return s;
}

/// 36 MB for four tiles are read for next to nothing; for sixteen they are worth it.
TEST(Winograd, F4x4IsNotForManyWeightsOfFewTiles) {
  for (const ConvTactic& tactic : conv_tactics(Isa::fused)) {
    if (tactic.name != std::string("winograd4") && tactic.name != std::string("winograd2")) continue;
    const auto is_refused = [&](const ConvShape& shape) { return bool(tactic.refuses(shape, {})); };
    EXPECT_EQ(is_refused(square_3x3(1, 7, 512)), std::string(tactic.name) == "winograd4") << tactic.name;
    for (const ConvShape& shape : {square_3x3(1, 14, 512), square_3x3(1, 7, 256), square_3x3(4, 7, 512)})
      EXPECT_FALSE(is_refused(shape)) << tactic.name;
  }
}

/// Weights that a run transforms are packed as the direct kernel's, and shared with it.
TEST(Winograd, TapsArePackedAsForTheDirectKernel) {
  const ConvTactic *direct = nullptr, *taps = nullptr;
  for (const ConvTactic& tactic : conv_tactics(Isa::fused)) {
    if (tactic.name == std::string("direct")) direct = &tactic;
    if (tactic.name == std::string("winograd4_taps")) taps = &tactic;
  }
  ASSERT_TRUE(direct && taps);
  EXPECT_EQ(taps->pack, direct->pack);
  EXPECT_EQ(taps->packed_floats(square_3x3(1, 40, 256)), direct->packed_floats(square_3x3(1, 40, 256)));
  EXPECT_FALSE(taps->refuses(square_3x3(1, 40, 256), {}));
  EXPECT_TRUE(taps->refuses(square_3x3(1, 10, 256), {})) << "few tiles";
  EXPECT_TRUE(taps->refuses(square_3x3(1, 80, 256), {})) << "more transformed tiles than caches hold";
}

}  // namespace
}  // namespace tenon::cpu
