// SPDX-License-Identifier: Apache-2.0
// Parameters of depthwise convolutions by diagonal matrices; stands behind diagonal.cuh.
struct Params {
  const float16 *x, *w;
  const float* bias;
  float16* y;
  i64 xs[3], ys[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, groups, tiles_x, tiles_y, units;
  float alpha, beta;
};
