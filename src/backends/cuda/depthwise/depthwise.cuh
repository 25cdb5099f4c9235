// SPDX-License-Identifier: Apache-2.0
// What a depthwise convolution on the plain arithmetic units is given, channels last. ELEMENT, TY: types.
struct Params {
  const ELEMENT* x;
  const float *w, *bias;  // w: [tap][channel]
  const TY* residual;
  TY* y;
  i64 xs[3], ys[3], rs[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left;
  int strips, count;  // of pixels along a row; threads that have work, or strips below each other
  float alpha, beta;
};
