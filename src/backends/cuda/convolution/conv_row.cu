// SPDX-License-Identifier: Apache-2.0
// A 1x1 convolution of few pixels: LANES lanes share the sums of one channel of PIXELS pixels, over rows of DEPTH
// weights that are on their way before the kernel before has ended; blocks beside each other take the same channels of
// other pixels. Macros: ELEMENT, TY types, VEC elements a load,
// LANES, PIXELS, DEPTH, ACT, RESIDUAL (of TY). Weights: [result][channel] in ELEMENT.
constexpr int CHUNKS = DEPTH / VEC, STEPS = (CHUNKS + LANES - 1) / LANES, EARLY = STEPS < 8 ? STEPS : 8;

struct Params {
  const ELEMENT *x, *w;
  const float* bias;
  const TY* residual;
  TY* y;
  i64 xs[PIXELS], ys[PIXELS], rs[PIXELS];  // where a block's pixels begin
  i64 x_step, y_step, r_step;              // from a block's to the next one's
  int channels, pixels;
  float alpha, beta;
};
struct __align__(VEC * sizeof(ELEMENT)) Vec {
  ELEMENT e[VEC];
};

extern "C" __global__ void __launch_bounds__(128)
    conv_row(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int lane = threadIdx.x % LANES, c = blockIdx.x * (128 / LANES) + threadIdx.x / LANES;
  const bool alive = c < p.channels;
  const Vec* w = (const Vec*)(p.w + (i64)(alive ? c : 0) * DEPTH);
  Vec early[EARLY];
#pragma unroll
  for (int s = 0; s < EARLY; ++s) {
    early[s] = {};
    if (lane + s * LANES < CHUNKS) early[s] = w[lane + s * LANES];
  }
  const float bias = p.bias[alive ? c : 0];
  wait_for_previous(breadcrumb);
  const int left = p.pixels - blockIdx.y * PIXELS;
  const ELEMENT* const x = p.x + blockIdx.y * p.x_step;
  float sum[PIXELS] = {}, residual[PIXELS] = {};
#pragma unroll
  for (int m = 0; m < PIXELS; ++m)
    if (RESIDUAL && alive && lane == m % LANES && m < left)
      residual[m] = f32_of(p.residual[blockIdx.y * p.r_step + p.rs[m] + c]);
  const auto add = [&](const Vec& weight, int at) {
#pragma unroll
    for (int m = 0; m < PIXELS; ++m) {
      const Vec v = *(const Vec*)(x + p.xs[m < left ? m : 0] + at * VEC);
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[m] = fmaf(f32_of(v.e[e]), f32_of(weight.e[e]), sum[m]);
    }
  };
#pragma unroll
  for (int s = 0; s < EARLY; ++s)
    if (lane + s * LANES < CHUNKS) add(early[s], lane + s * LANES);
#pragma unroll 4
  for (int at = lane + EARLY * LANES; at < CHUNKS; at += LANES) add(w[at], at);
#pragma unroll
  for (int m = 0; m < PIXELS; ++m) {
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) sum[m] += __shfl_xor_sync(~0u, sum[m], step);
    if (!alive || lane != m % LANES || m >= left) continue;
    float v = sum[m] + bias;
    if (RESIDUAL == 1) v += residual[m];
    v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
    p.y[blockIdx.y * p.y_step + p.ys[m] + c] = of_f32<TY>(RESIDUAL == 2 ? v + residual[m] : v);
  }
}
