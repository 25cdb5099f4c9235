// SPDX-License-Identifier: Apache-2.0
// A convolution of few channels in bytes on mma.sync (compute capability 8.0 and later): a block of THREADS keeps its
// part of the input in shared memory, pixels of CB (16 or 32) bytes, and makes TH x 32 results of WIDTH channels. Of 16
// bytes a product takes two taps: a pixel and the neighbour behind it. What lies outside of the input is its zero
// point. Behind quantise.cuh and int8.cuh. Macros: STRIDE, TAPS_H, TAPS_W, TH, WIDTH, COUT, and
//   IMAGE 1: a pixel is BLOCK x BLOCK of an image with any strides, quantised as it is read: channel
//      (row * BLOCK + column) * C + c; ELEMENT (float or u8), PAIRS (BLOCK 2: two neighbours are read at once)
//   IMAGE 0: pixels of CB bytes
// Weights: [step of 32 bytes][8 results][lane][2], position n of 8 t holding result n / 2 * (WIDTH / 4) + 2 t + n % 2.
constexpr int TW = 32, PH = (TH - 1) * STRIDE + TAPS_H, PW = (TW - 1) * STRIDE + TAPS_W, CHUNKS = CB / 16;
constexpr int STEPS_W = CB == 16 ? (TAPS_W + 1) / 2 : TAPS_W, STEPS = TAPS_H * STEPS_W;
constexpr int OWN = WIDTH / 4, NT = WIDTH / 8;
#if IMAGE
typedef ELEMENT X;
#else
typedef u8 X;
#endif

#include "int8_window_params.h"
typedef tenon::cuda::Int8WindowParams Params;

#if IMAGE
struct __align__(2 * sizeof(X)) Pair {
  X e[2];
};
#endif

// In shared memory: weights, and parts of the input; of pixels one that comes for the next tile while another is
// computed.
constexpr int COUNT = PH * PW * CHUNKS, PARTS = IMAGE ? 1 : 2;
constexpr int AT_PARTS = STEPS * NT * 256, PART_BYTES = (COUNT * 16 + 16 + 127) / 128 * 128;
constexpr int SHARED = AT_PARTS + PARTS * PART_BYTES;

// A tile's first column and row of results, and its image.
struct Place {
  int x, y, n;
};
__device__ __forceinline__ Place tile_place(const Params& p, int tile) {
  const int row = tile / p.tiles_x;
  return {tile % p.tiles_x * TW, row % p.tiles_y * TH, row / p.tiles_y};
}

#if IMAGE
constexpr int NUMBERS = BLOCK * BLOCK * C;
// The numbers of pixel i of a part; what lies outside is zero.
__device__ __forceinline__ void load_block(X (&f)[NUMBERS], const Params& p, const X* image, const Place& at, int i) {
  const int bh = at.y - p.pad_top + i / PW, bw = at.x - p.pad_left + i % PW;
  const bool inside = i < COUNT && (u32)bh < (u32)p.blocks_h && (u32)bw < (u32)p.blocks_w;
  const X* corner = image + (i64)(bh * BLOCK) * p.xs[1] + (i64)(bw * BLOCK) * p.xs[2];
#pragma unroll
  for (int k = 0; k < NUMBERS; ++k) f[k] = sizeof(X) == 1 ? (X)p.x_zero : (X)0;
#pragma unroll
  for (int r = 0; r < BLOCK; ++r)
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const X* from = corner + r * p.xs[1] + c * p.xs[3];
#if PAIRS
      if (inside && bh * BLOCK + r < p.in_h) {
        const Pair two = *(const Pair*)from;
        f[r * 2 * C + c] = two.e[0], f[(r * 2 + 1) * C + c] = two.e[1];
      }
#else
#pragma unroll
      for (int k = 0; k < BLOCK; ++k)
        if (inside && bh * BLOCK + r < p.in_h && bw * BLOCK + k < p.in_w)
          f[(r * BLOCK + k) * C + c] = from[k * p.xs[2]];
#endif
    }
}
// Quantises a tile's part of the image: two pixels at a time, so that all their loads are under way before the first
// is used.
__device__ __forceinline__ void quantise_image(const Params& p, uint4* part, const Place& at) {
  const X* image = p.x + at.n * p.xs[0];
#pragma unroll 1
  for (int first = threadIdx.x; first < COUNT; first += 2 * THREADS) {
    X f[2][NUMBERS];
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) load_block(f[twin], p, image, at, first + twin * THREADS);
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) {
      const int i = first + twin * THREADS;
      if (i >= COUNT) break;
      int b[NUMBERS], v[16] = {};
      quantise(f[twin], b, p.x_scale, p.x_inverse, p.x_zero);
#pragma unroll
      for (int k = 0; k < NUMBERS; ++k) v[k] = b[k];
      part[i] = make_uint4(pack_bytes(v[0], v[1], v[2], v[3]), pack_bytes(v[4], v[5], v[6], v[7]),
                           pack_bytes(v[8], v[9], v[10], v[11]), pack_bytes(v[12], v[13], v[14], v[15]));
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, (WIDTH == 64 ? 512 : 768) / THREADS)
    int8_window(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  uint2* weights = (uint2*)memory;
  uint4* parts = (uint4*)(memory + AT_PARTS);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  // Weights come from no kernel before this one.
  for (int i = threadIdx.x; i < STEPS * NT * 32; i += THREADS) weights[i] = p.w[i];
  int zero[OWN];
#pragma unroll
  for (int k = 0; k < OWN; ++k) zero[k] = q * OWN + k < COUT ? p.lists.zero_sums[q * OWN + k] : 0;
  wait_for_previous(breadcrumb);

  const auto place_of = [&](int tile) { return tile_place(p, tile); };
#if !IMAGE
  const u32 outside = p.x_zero * 0x01010101u;
  const auto load = [&](int tile, int buffer) {
    const Place at = place_of(tile);
    const X* image = p.x + at.n * p.xs[0];
    uint4* part = parts + buffer * (PART_BYTES / 16);
    const u32 to = (u32)__cvta_generic_to_shared(part);
    for (int i = threadIdx.x; i < COUNT; i += THREADS) {
      const int pixel = i / CHUNKS;
      const int h = at.y * STRIDE - p.pad_top + pixel / PW, w = at.x * STRIDE - p.pad_left + pixel % PW;
      // Chunks change places, so that eight rows of one chunk lie in different banks.
      const int own = CHUNKS == 1 ? i : pixel * 2 + ((i & 1) ^ (pixel >> 2 & 1));
      if ((u32)h < (u32)p.blocks_h && (u32)w < (u32)p.blocks_w)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + own * 16),
                     "l"(image + h * p.xs[1] + w * p.xs[2] + i % CHUNKS * 16)
                     : "memory");
      else part[own] = make_uint4(outside, outside, outside, outside);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#endif

#if !IMAGE
  if (blockIdx.x < p.tiles) load(blockIdx.x, 0);
#endif
  int turn = 0;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, turn ^= 1) {
    const Place at = place_of(tile);
#if !IMAGE
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
    __syncthreads();
#if !IMAGE
    if (tile + gridDim.x < p.tiles) load(tile + gridDim.x, turn ^ 1);
#else
    quantise_image(p, parts, at);
    __syncthreads();
#endif
    const u32 base = (u32)__cvta_generic_to_shared(parts + (PARTS > 1 ? turn : 0) * (PART_BYTES / 16));
#pragma unroll 1
    for (int row = warp; row < TH; row += THREADS / 32) {
      const int y = at.y + row;
      if (y >= p.out_h) continue;
      int sum[2][NT][4];
#pragma unroll
      for (int t = 0; t < NT; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[0][t][e] = sum[1][t][e] = zero[2 * t + e % 2];
#pragma unroll(WIDTH == 64 ? 2 : STEPS)
      for (int s = 0; s < STEPS; ++s) {
        u32 a[2][4];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          int at = (row * STRIDE + s / STEPS_W) * PW + (m * 16 + (lane & 15)) * STRIDE;
          if (CB == 16) {
            at += (lane >> 4) + s % STEPS_W * 2;
          } else {
            at += s % STEPS_W;
            at = at * 2 + ((lane >> 4) ^ (at >> 2 & 1));
          }
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3])
                       : "r"(base + at * 16)
                       : "memory");
        }
#pragma unroll
        for (int t = 0; t < NT; ++t) {
          const uint2 b = weights[(s * NT + t) * 32 + lane];
#pragma unroll
          for (int m = 0; m < 2; ++m)
            asm volatile(
                "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+r"(sum[m][t][0]), "+r"(sum[m][t][1]), "+r"(sum[m][t][2]), "+r"(sum[m][t][3])
                : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b.x), "r"(b.y));
        }
      }
      if (q * OWN >= COUT) continue;
      u32 other[2][2][OWN / 4] = {};
#if RESIDUAL
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int x = at.x + m * 16 + g + 8 * h;
          const u32* from = (const u32*)(p.residual + at.n * p.rs[0] + y * p.rs[1] + x * p.rs[2] + q * OWN);
          if (x < p.out_w)
#pragma unroll
            for (int k = 0; k < OWN / 4; ++k) other[m][h][k] = from[k];
        }
#endif
#pragma unroll
      for (int four = 0; four < OWN / 4; ++four) {
        const int channel = q * OWN + four * 4;
        const float4 bias4 = *(const float4*)(p.lists.bias + channel),
                     scale4 = *(const float4*)(p.lists.scale + channel);
        const float bias[4] = {bias4.x, bias4.y, bias4.z, bias4.w}, scale[4] = {scale4.x, scale4.y, scale4.z, scale4.w};
        float inverse[4], r_scale[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
          inverse[e] = inverse_of(p.lists.inverses, channel + e, p.finish),
          r_scale[e] = RESIDUAL ? r_scale_of(p.lists.r_scales, channel + e, p.finish) : 0.f;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            int v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
              v[e] = steps_of(
                  real_of<true, true>(sum[m][four * 2 + e / 2][2 * h + e % 2], scale[e], bias[e],
                                      RESIDUAL ? residual_of(other[m][h][four], e, r_scale[e], p.finish) : Added{},
                                      p.finish),
                  inverse[e], p.finish);
            // Fours of a pixel wait in the place of their first sum until all are there.
            sum[m][four * 2][2 * h] = pack_bytes(v[0], v[1], v[2], v[3]);
          }
      }
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int x = at.x + m * 16 + g + 8 * h;
          if (x >= p.out_w) continue;
          u8* to = p.y + at.n * p.ys[0] + y * p.ys[1] + x * p.ys[2] + q * OWN;
#if WIDTH == 16
          *(u32*)to = sum[m][0][2 * h];
#elif WIDTH == 32
          *(uint2*)to = make_uint2(sum[m][0][2 * h], sum[m][2][2 * h]);
#else
          *(uint4*)to = make_uint4(sum[m][0][2 * h], sum[m][2][2 * h], sum[m][4][2 * h], sum[m][6][2 * h]);
#endif
        }
    }
  }
}
// For the host: bytes of shared memory.
extern "C" __device__ const int meta[1] = {SHARED};
