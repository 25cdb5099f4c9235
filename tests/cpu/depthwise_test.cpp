// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions by every tactic of every instruction set this machine has, against a double-precision
// reference.
#include "conv_check.h"

namespace tenon::cpu {
namespace {

using namespace conv_check;

TEST(Conv, Depthwise) {
  for (int channels : {1, 4, 8, 19, 32, 100})
    for (int kernel : {2, 3, 5, 7})
      for (int stride : {1, 2, 3})
        for (int size : {1, 5, 14}) {
          const int pad = kernel / 2;
          if (size + 2 * pad < kernel) continue;
          EXPECT_GT(check(make_case(2, size, size + 3, channels, channels, kernel, kernel, stride, {pad, pad, pad, pad},
                                    1, channels, 5, 3)),
                    0);
        }
  check(make_case(1, 17, 9, 24, 24, 3, 3, 1, {2, 2, 2, 2}, 2, 24));
}

TEST(Conv, DepthwiseDilated) {
  for (int channels : {8, 20})
    for (int kernel : {3, 5, 7})
      for (int dilation : {2, 3, 18})
        for (int wide : {7, 23})
          for (int pad : {1, kernel / 2 * dilation}) {
            if (wide + 2 * pad < (kernel - 1) * dilation + 1 || 9 + 2 * pad < (kernel - 1) * dilation + 1) continue;
            EXPECT_GT(check(make_case(2, 9, wide, channels, channels, kernel, kernel, 1, {pad, pad, pad, pad}, dilation,
                                      channels, 5, 3)),
                      0);
          }
  Case c = make_case(1, 12, 20, 24, 24, 3, 3, 1, {2, 3, 2, 3}, 2, 24);
  c.epilogue = {expr::Id::Silu, 0, 0, Residual::after};
  c.shape.dilation_h = 1, c.shape.out_h = 14;  // rows are not dilated, columns are
  c.shape.out_image = c.shape.out_h * c.shape.out_row, c.shape.res_image = c.shape.out_h * c.shape.res_row;
  check(c);
  c.shape.stride_h = 2, c.shape.out_h = 7;
  check(c);
}

TEST(Conv, DepthwiseOfManyTaps) {
  const Padding none{};
  for (int channels : {5, 16, 76, 130})
    for (int width : {7, 10, 14, 35})
      for (int stride : {1, 2, 3}) {
        EXPECT_GT(check(make_case(2, 11, width, channels, channels, 9, 9, stride, {4, 4, 4, 4}, 1, channels, 3, 5)), 7);
        check(make_case(1, 6, width, channels, channels, 2, 5, stride, {0, 2, 1, 3}, 1, channels, 1, 2));
      }
  EXPECT_GT(check(make_case(2, 1, 40, 72, 72, 1, 31, 1, {0, 15, 0, 15}, 1, 72)), 7);
  check(make_case(1, 40, 3, 24, 24, 31, 1, 1, {15, 0, 15, 0}, 1, 24));
  check(make_case(1, 9, 16, 40, 40, 7, 7, 2, {6, 6, 6, 6}, 2, 40, 2, 0));
  check(make_case(1, 3, 4, 20, 20, 3, 11, 1, {1, 9, 1, 9}, 1, 20));
  check(make_case(1, 20, 9, 20, 20, 5, 5, 1, none, 1, 20));
}

TEST(Conv, DepthwiseOfSlices) {
  const Padding all{1, 1, 1, 1};
  for (int64_t step : {1, 2})
    for (int channels : {3, 16, 54}) {
      EXPECT_GT(check(frames_case(make_case(9, 9, 14, channels, channels, 3, 3, 1, all, 1, channels, 2, 3), 3, step)),
                2);
      // The frames of two output frames lie two apart.
      Case c = make_case(4, 7, 6, channels, channels, 3, 3, 2, all, 1, channels);
      c.shape.slices = 3, c.shape.in_slice = step * c.shape.in_image, c.shape.in_image *= 2, c.shape.in_c *= 3;
      c.epilogue = {expr::Id::Silu, 0, 0, Residual::before};
      EXPECT_GT(check(c), 2);
    }
  EXPECT_GT(check(frames_case(make_case(40, 9, 40, 20, 20, 5, 5, 1, {2, 2, 2, 2}, 1, 20), 5, 1)), 2);
  EXPECT_GT(check(frames_case(make_case(1, 6, 5, 36, 36, 3, 3, 1, all, 1, 36), 5, 3)), 2);
}

}  // namespace
}  // namespace tenon::cpu
