// SPDX-License-Identifier: Apache-2.0
// Depthwise 3x3 convolution in f16 on mma.sync (compute capability 8.0 and later), channels last, sums in f32. A warp
// makes 8 columns x 2 rows of 32 channels, STEPS times downwards. A lane loads 16 bytes of a pixel; two channels of
// them are two of eight columns of a product by a diagonal matrix, whose depth is two taps of those eight channels. So
// no value changes its lane, and none is converted. Macros: STRIDE, STEPS, AHEAD (1: rows of the next step are loaded
// before this one is computed), ACT. Weights: [tap][channel] in f16. diagonal.cuh stands before this text.
constexpr int ROWS = STRIDE + 3, NEW = 2 * STRIDE, TAPS = 9;

extern "C" __global__ void __launch_bounds__(128)
    depthwise_mma(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int lane = threadIdx.x & 31, q = lane & 3, g = lane >> 2;
  int unit = blockIdx.x * 4 + (threadIdx.x >> 5);
  if (unit >= p.units) return;
  const int c = (unit % p.groups * 4 + q) * 8;
  unit /= p.groups;
  const int column = unit % p.tiles_x * 8 + g;
  unit /= p.tiles_x;
  const int top = unit % p.tiles_y * (2 * STEPS), n = unit / p.tiles_y;
  const bool alive = c < p.channels;

  // Lane (g, q) holds element (2q.., g) of the diagonal matrices: one channel where q == g / 2. Weights come from no
  // kernel before this one.
  u32 weight[TAPS][4];
  float bias[8] = {};
  const u32 mask = q != g >> 1 || !alive ? 0 : g & 1 ? 0xffff0000u : 0xffffu;
#pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (mask) v = *(const uint4*)(p.w + t * p.channels + c);
#pragma unroll
    for (int j = 0; j < 4; ++j) weight[t][j] = word_of(v, j) & mask;
  }
  if (alive) *(float4*)&bias[0] = *(const float4*)(p.bias + c), *(float4*)&bias[4] = *(const float4*)(p.bias + c + 4);
  wait_for_previous(breadcrumb);

  const float16* image = p.x + n * p.xs[0] + c;
  const int left = column * STRIDE - p.pad_left;
  uint4 in[ROWS][3];
  const auto load = [&](uint4(&row)[3], int h) {
    const bool inside = alive && (u32)h < (u32)p.in_h;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      row[k] = make_uint4(0, 0, 0, 0);
      if (inside && (u32)(left + k) < (u32)p.in_w) row[k] = *(const uint4*)(image + h * p.xs[1] + (left + k) * p.xs[2]);
    }
  };
#pragma unroll
  for (int r = 0; r < (AHEAD ? ROWS : ROWS - NEW); ++r) load(in[r], top * STRIDE - p.pad_top + r);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const int y = top + 2 * step;
    if (y >= p.out_h) break;
    uint4 next[NEW][3];
    if (!AHEAD)
#pragma unroll
      for (int r = ROWS - NEW; r < ROWS; ++r) load(in[r], y * STRIDE - p.pad_top + r);
    if (AHEAD && step + 1 < STEPS)
#pragma unroll
      for (int r = 0; r < NEW; ++r) load(next[r], y * STRIDE - p.pad_top + ROWS + r);
    uint4 out[2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float sum[4] = {bias[2 * j], bias[2 * j + 1], bias[2 * j], bias[2 * j + 1]};
#pragma unroll
      for (int t = 0; t + 1 < TAPS; t += 2)
        multiply(sum, word_of(in[t / 3][t % 3], j), word_of(in[STRIDE + t / 3][t % 3], j),
                 word_of(in[(t + 1) / 3][(t + 1) % 3], j), word_of(in[STRIDE + (t + 1) / 3][(t + 1) % 3], j),
                 weight[t][j], weight[t + 1][j]);
      multiply(sum, word_of(in[2][2], j), word_of(in[STRIDE + 2][2], j), weight[8][j]);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] = activate<ACT, true>(sum[e], p.alpha, p.beta);
      const u32 upper = pack_halves(sum[0], sum[1]), lower = pack_halves(sum[2], sum[3]);
      if (j == 0) out[0].x = upper, out[1].x = lower;
      if (j == 1) out[0].y = upper, out[1].y = lower;
      if (j == 2) out[0].z = upper, out[1].z = lower;
      if (j == 3) out[0].w = upper, out[1].w = lower;
    }
    if (alive && column < p.out_w) {
      float16* to = p.y + n * p.ys[0] + y * p.ys[1] + column * p.ys[2] + c;
      *(uint4*)to = out[0];
      if (y + 1 < p.out_h) *(uint4*)(to + p.ys[1]) = out[1];
    }
#pragma unroll
    for (int r = 0; r < ROWS - NEW; ++r)
#pragma unroll
      for (int k = 0; k < 3; ++k) in[r][k] = in[r + NEW][k];
    if (AHEAD)
#pragma unroll
      for (int r = 0; r < NEW; ++r)
#pragma unroll
        for (int k = 0; k < 3; ++k) in[ROWS - NEW + r][k] = next[r][k];
  }
}
