// SPDX-License-Identifier: Apache-2.0
// Every convolution tactic of every instruction set this machine has, against a double-precision reference.
#include "conv_check.h"

namespace tenon::cpu {
namespace {

using namespace conv_check;

TEST(Conv, PointwiseOfManyChannelCounts) {
  for (int in_c : {1, 3, 4, 5, 8, 16, 17, 24, 64, 100, 385, 800})
    for (int out_c : {1, 7, 8, 15, 16, 17, 24, 33, 80}) EXPECT_GT(check(square(7, in_c, out_c, 1, 1, 0)), 0);
}

TEST(Conv, KernelsStridesPadsAndDilations) {
  for (int kernel : {1, 2, 3, 5, 7})
    for (int stride : {1, 2, 3})
      for (int dilation : {1, 2})
        for (int in_c : {3, 8, 20}) {
          const Padding pad{kernel / 2, kernel / 2 * dilation, kernel - 1, 0};
          EXPECT_GT(check(make_case(1, 15, 13, in_c, 18, kernel, kernel, stride, pad, dilation)), 0);
        }
}

TEST(Conv, Kernel3x3AsWinogradSeesIt) {
  for (int h : {3, 4, 7, 8, 14})
    for (int w : {3, 6, 13})
      for (int in_c : {1, 6, 8, 17, 40})
        for (int out_c : {5, 16, 36}) {
          check(make_case(1, h, w, in_c, out_c, 3, 3, 1, {1, 1, 1, 1}));
          check(make_case(2, h, w, in_c, out_c, 3, 3, 1, {0, 2, 1, 0}, 1, 1, 3, 5));
        }
}

TEST(Conv, Kernel5x5AsWinogradSeesIt) {
  for (int size : {5, 6, 13})
    for (int in_c : {1, 8, 40})
      for (int out_c : {5, 16, 36}) {
        EXPECT_GT(check(make_case(1, size, 9, in_c, out_c, 5, 5, 1, {2, 2, 2, 2})), 5);
        EXPECT_GT(check(make_case(2, size, 8, in_c, out_c, 5, 5, 1, {0, 4, 1, 0}, 1, 1, 3, 5)), 5);
      }
  EXPECT_GT(check(frames_case(make_case(9, 9, 14, 24, 8, 5, 5, 1, {2, 2, 2, 2}, 1, 1, 2, 3), 3, 1)), 3);
}

// Of frames, `step` of which lie between two that a window sees.
TEST(Conv, ChannelsInSlices) {
  const Padding all{1, 1, 1, 1};
  for (int64_t step : {1, 2})
    for (int in_c : {3, 12, 40})
      EXPECT_GT(check(frames_case(make_case(step * 9, 9, 14, in_c, 36, 3, 3, 1, all, 1, 1, 2, 3), 3, step)), 5);
  for (int out_c : {5, 16}) EXPECT_GT(check(frames_case(make_case(1, 9, 14, 8, out_c, 3, 3, 1, all), 3, 1)), 5);
  EXPECT_GT(check(frames_case(make_case(11, 15, 30, 72, 48, 3, 3, 1, {1, 0, 0, 1}), 2, 1)), 5);
  EXPECT_GT(check(frames_case(make_case(4, 9, 7, 10, 20, 5, 3, 2, {2, 1, 2, 1}), 3, 1)), 1);
  EXPECT_GT(check(frames_case(make_case(4, 9, 7, 16, 20, 1, 1, 1, {}), 3, 1)), 1);
}

TEST(Conv, ManyTileBlocksPerWorker) {
  check(make_case(1, 61, 58, 72, 20, 3, 3, 1, {1, 1, 1, 1}));
  check(make_case(2, 40, 37, 130, 33, 1, 1, 1, {}));
}

TEST(Conv, LongSums) {
  check(square(7, 512, 48, 3, 1, 1));
  check(square(14, 512, 40, 3, 2, 1));
  check(square(9, 200, 40, 3, 1, 1));
  check(square(1, 2048, 1000, 1, 1, 0));
  check(square(1, 37, 150, 1, 1, 0));
}

TEST(Conv, Groups) {
  check(make_case(2, 9, 8, 24, 36, 3, 3, 1, {1, 1, 1, 1}, 1, 3));
  check(make_case(1, 9, 8, 32, 32, 3, 3, 2, {1, 1, 1, 1}, 1, 8, 2, 1));
  check(make_case(1, 9, 8, 6, 12, 3, 3, 1, {1, 1, 1, 1}, 1, 6));
}

TEST(Conv, SmallGroups) {
  for (int group_in : {1, 2, 3, 4, 8})
    for (int group_out : {1, 2, 4, 8, 16})
      for (int groups : {3, 5, 8, 19})
        for (int kernel : {1, 3, 5})
          for (int stride : {1, 2}) {
            const int pad = kernel / 2;
            EXPECT_GT(check(make_case(2, 9, 7, groups * group_in, groups * group_out, kernel, kernel, stride,
                                      {pad, pad, pad, pad}, 1, groups, 0, 3)),
                      0);
          }
}

TEST(Conv, PaddingOfWholeTilesIsLeftOut) {
  for (int in_c : {3, 8, 400})
    for (int dilation : {1, 12})
      for (int kernel : {3, 5}) {
        const int pad = kernel / 2 * dilation;
        EXPECT_GT(check(make_case(1, 14, 14, in_c, 20, kernel, kernel, 1, {pad, pad, pad, pad}, dilation)), 0);
        check(make_case(1, 4, 30, in_c, 8, kernel, kernel, 1, {pad + 9, pad + 20, pad + 9, pad + 20}, dilation));
      }
}

TEST(Conv, StemReadsNchw) {
  for (int in_c : {1, 3, 4})
    for (int kernel : {3, 4, 6, 7})
      for (int stride : {1, 2, 4})
        for (int out_c : {5, 16, 32, 64}) {
          Case c = make_case(2, 19, 23, in_c, out_c, kernel, kernel, stride, {kernel / 2, 1, kernel / 2, kernel / 2}, 1,
                             1, 0, 4);
          c.epilogue = {expr::Id::Relu, 0, 0, Residual::none};
          c.shape.in_nchw = true;
          EXPECT_GT(check(c), 0);
          c.shape.dilation_w = 2;
          if (c.shape.stride_w == 1) c.shape.out_w -= kernel - 1;
          if (c.shape.stride_w == 1) check(c);
        }
}

// Of more weights than a first cache holds.
TEST(Conv, StemOfManyChannels) {
  for (int in_c : {9, 21})
    for (int out_c : {32, 40, 72}) {
      Case c = make_case(2, 15, 33, in_c, out_c, 7, 7, 2, {3, 3, 3, 3}, 1, 1, 0, 4);
      c.epilogue = {expr::Id::Relu, 0, 0, Residual::none};
      c.shape.in_nchw = true;
      EXPECT_GT(check(c), 0);
    }
}

// Of few outputs, whose pixels are lanes.
TEST(Conv, StemOfFewOutputs) {
  for (int in_c : {1, 5, 15})
    for (int out_c : {1, 4, 7, 8})
      for (int width : {9, 33, 100})
        for (int stride : {1, 2, 3}) {
          Case c = make_case(2, 11, width, in_c, out_c, 5, 7, stride, {2, 3, 2, 3}, 1, 1, 0, width % 2 * 4);
          c.epilogue = {expr::Id::Relu, 0, 0, Residual::before};
          c.shape.in_nchw = true;
          EXPECT_GT(check(c), 0);
        }
}

TEST(Conv, EveryEpilogueOfEveryTactic) {
  for (Residual residual : {Residual::none, Residual::before, Residual::after})
    for (const ops::Expression& activation : ops::expressions()) {
      if (!activation.is_epilogue) continue;
      Epilogue e{activation.id, 0.2f, 0.55f, residual};
      // Of its steps, which are less than the limits, the bounds are told: sums near halfway may go either way.
      if (activation.id == expr::Id::FakeQuantize16) e.alpha = 9e-6f, e.beta = -32768;
      std::vector<float> slopes(70);
      for (size_t i = 0; i < slopes.size(); ++i) slopes[i] = 0.03f * static_cast<float>(i % 40) - 0.5f;
      if (activation.operands == 2) e.slopes = slopes.data();
      for (Case c : {make_case(1, 9, 8, 12, 21, 3, 3, 1, {1, 1, 1, 1}, 1, 1, 4, 6),
                     make_case(1, 9, 8, 32, 32, 1, 1, 1, {}, 1, 1),
                     make_case(1, 9, 8, 20, 20, 3, 3, 1, {1, 1, 1, 1}, 1, 20, 0, 4), square(1, 40, 70, 1, 1, 0)}) {
        c.epilogue = e;
        EXPECT_GT(check(c), 0);
        c.bias = false;
        EXPECT_GT(check(c), 0);
      }
      Case stem = make_case(1, 9, 8, 3, 21, 3, 3, 2, {1, 1, 1, 1});
      stem.shape.in_nchw = true;
      stem.epilogue = e;
      check(stem);
      Case few = make_case(1, 9, 28, 3, 8, 3, 3, 1, {1, 1, 1, 1});
      few.shape.in_nchw = true;
      few.epilogue = e;
      check(few);
    }
}

}  // namespace
}  // namespace tenon::cpu
