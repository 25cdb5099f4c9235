// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution with a large window in f16 on mma.sync (compute capability 8.0 and later), channels last, sums
// in f32. A block brings the pixels of 32 channels that the windows of a tile cover to shared memory while it computes
// the tile before; a warp makes 8 columns x R rows of them. As in depthwise_mma.cu, a lane's 16 bytes of a pixel are
// operands as they are: two channels of them are two of eight columns of a product by a diagonal matrix, whose depth is
// one tap or two, below each other, of those eight channels. Macros: R (even) rows of a warp, X by Y warps along
// columns and rows, BLOCKS that fit into a multiprocessor together, KH, KW, STRIDE, ACT. Weights: [tap][channel] in
// f16. diagonal.cuh stands before this text.
constexpr int THREADS = X * Y * 32, ROWS = (R - 1) * STRIDE + KH, TAPS = KH * KW, PIXEL = 64;  // bytes of a pixel
constexpr int IN_H = (Y * R - 1) * STRIDE + KH, IN_W = (X * 8 - 1) * STRIDE + KW;
constexpr int AT_WEIGHTS = IN_H * IN_W * PIXEL, AT_BIAS = AT_WEIGHTS + TAPS * PIXEL, STAGE = AT_BIAS + 128;
static_assert(R % 2 == 0, "a product takes two rows");

__device__ __forceinline__ void copy_16(u32 to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

struct Tile {
  int n, top, left, c;  // image, first row and column of results, first channel
};
__device__ __forceinline__ Tile tile_of(const Params& p, int unit) {
  const int group = unit % p.groups, along = unit / p.groups, down = along / p.tiles_x;
  return {down / p.tiles_y, down % p.tiles_y * (Y * R), along % p.tiles_x * (X * 8), group * 32};
}
// Weights and bias come from no kernel before this one.
__device__ __forceinline__ void load_lists(const Params& p, const Tile& tile, u32 stage) {
  for (int i = threadIdx.x; i < TAPS * 4 + 8; i += THREADS) {
    const int tap = i / 4, c = tile.c + (tap < TAPS ? i % 4 * 8 : (i - TAPS * 4) * 4);
    const void* from = tap < TAPS ? (const void*)(p.w + tap * p.channels + c) : p.bias + c;
    copy_16(stage + AT_WEIGHTS + i * 16, c < p.channels ? from : p.w, c < p.channels);
  }
}
__device__ __forceinline__ void load_pixels(const Params& p, const Tile& tile, u32 stage) {
  const float16* image = p.x + tile.n * p.xs[0] + tile.c;
  const int first_row = tile.top * STRIDE - p.pad_top, first_column = tile.left * STRIDE - p.pad_left;
  for (int i = threadIdx.x; i < IN_H * IN_W * 4; i += THREADS) {
    const int row = first_row + i / 4 / IN_W, column = first_column + i / 4 % IN_W, chunk = i % 4 * 8;
    const bool there = (u32)row < (u32)p.in_h && (u32)column < (u32)p.in_w && tile.c + chunk < p.channels;
    copy_16(stage + i * 16, there ? image + row * p.xs[1] + column * p.xs[2] + chunk : p.x, there);
  }
}

__device__ __forceinline__ void compute(const Params& p, const Tile& tile, const u8* stage) {
  const int lane = threadIdx.x & 31, q = lane & 3, g = lane >> 2, warp = threadIdx.x >> 5;
  // Lane (g, q) holds element (2q.., g) of the diagonal matrices: one channel where q == g / 2.
  const u32 mask = q != g >> 1 ? 0 : g & 1 ? 0xffff0000u : 0xffffu;
  const int own_column = warp % X * 8 + g, own_row = warp / X * R;
  const float* bias = (const float*)(stage + AT_BIAS) + q * 8;
  float sum[R / 2][4][4];
#pragma unroll
  for (int t = 0; t < R / 2; ++t)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[t][j][e] = bias[2 * j + (e & 1)];
  const u8* const own = stage + (own_row * STRIDE * IN_W + own_column * STRIDE) * PIXEL + q * 16;
  const auto weight_of = [&](int kr, int ks) {
    const uint4 w = *(const uint4*)(stage + AT_WEIGHTS + (kr * KW + ks) * PIXEL + q * 16);
    return make_uint4(w.x & mask, w.y & mask, w.z & mask, w.w & mask);
  };
#pragma unroll
  for (int ks = 0; ks < KW; ++ks) {
    uint4 in[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) in[r] = *(const uint4*)(own + (r * IN_W + ks) * PIXEL);
#pragma unroll
    for (int kr = 0; kr < KH; kr += 2) {
      const bool two = kr + 1 < KH;
      const uint4 w0 = weight_of(kr, ks), w1 = weight_of(two ? kr + 1 : kr, ks);
#pragma unroll
      for (int t = 0; t < R / 2; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int upper = 2 * t * STRIDE + kr, lower = upper + STRIDE;
          if (two)
            multiply(sum[t][j], word_of(in[upper], j), word_of(in[lower], j), word_of(in[upper + 1], j),
                     word_of(in[lower + 1], j), word_of(w0, j), word_of(w1, j));
          else multiply(sum[t][j], word_of(in[upper], j), word_of(in[lower], j), word_of(w0, j));
        }
    }
  }

  const int c = tile.c + q * 8, column = tile.left + own_column;
  if (c >= p.channels || column >= p.out_w) return;
#pragma unroll
  for (int t = 0; t < R / 2; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = tile.top + own_row + 2 * t + h;
      if (row >= p.out_h) continue;
      u32 out[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        out[j] = pack_halves(activate<ACT, true>(sum[t][j][2 * h], p.alpha, p.beta),
                             activate<ACT, true>(sum[t][j][2 * h + 1], p.alpha, p.beta));
      *(uint4*)(p.y + tile.n * p.ys[0] + row * p.ys[1] + column * p.ys[2] + c) =
          make_uint4(out[0], out[1], out[2], out[3]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    depthwise_window(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(16) u8 memory[];
  const u32 base = (u32)__cvta_generic_to_shared(memory);
  Tile tile = tile_of(p, blockIdx.x);
  load_lists(p, tile, base);
  wait_for_previous(breadcrumb);
  load_pixels(p, tile, base);
  asm volatile("cp.async.commit_group;" ::: "memory");
  int at = 0;
  for (int unit = blockIdx.x; unit < p.units; unit += gridDim.x, at ^= 1) {
    const Tile next = tile_of(p, unit + gridDim.x);
    if (unit + gridDim.x < p.units) {
      load_lists(p, next, base + (at ^ 1) * STAGE);
      load_pixels(p, next, base + (at ^ 1) * STAGE);
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    compute(p, tile, memory + at * STAGE);
    __syncthreads();
    tile = next;
  }
}
