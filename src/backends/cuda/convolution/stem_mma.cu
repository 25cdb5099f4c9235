// SPDX-License-Identifier: Apache-2.0
// A convolution of few channels in f16 on mma.sync (compute capability 8.0 and later), straight from an image with any
// strides: a block reads its part once, keeps it in shared memory as BLOCK x BLOCK pixels of 16 channels
// (channel (row * BLOCK + column) * C + c, zeros behind), and makes TH x 32 results of WIDTH channels. Macros: ELEMENT,
// C, BLOCK, TAPS_H, TAPS_W (in blocks), TH, THREADS, WIDTH, COUT, PAIRS (BLOCK 2: two neighbours are read at once),
// ACT. Weights: [tap][8 results][lane][2], position n of 8 t holding result n / 2 * (WIDTH / 4) + 2 t + n % 2.
constexpr int TW = 32, PH = TH + TAPS_H - 1, PW = TW + TAPS_W - 1, TAPS = TAPS_H * TAPS_W, OWN = WIDTH / 4;
static_assert(C * BLOCK * BLOCK <= 16, "channels");

#include "stem_mma_params.h"
typedef tenon::cuda::StemMmaParams Params;
struct __align__(2 * sizeof(ELEMENT)) Pair {
  ELEMENT e[2];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    stem_mma(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ __align__(128) uint4 part[PH * PW * 2];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  const int x0 = blockIdx.x % p.tiles_x * TW, y0 = blockIdx.x / p.tiles_x % p.tiles_y * TH,
            n = blockIdx.x / p.tiles_x / p.tiles_y;
  // Weights come from no kernel before this one.
  uint2 weight[TAPS][WIDTH / 8];
#pragma unroll
  for (int t = 0; t < TAPS; ++t)
#pragma unroll
    for (int k = 0; k < WIDTH / 8; ++k) weight[t][k] = p.w[(t * (WIDTH / 8) + k) * 32 + lane];
  float bias[OWN];
#pragma unroll
  for (int k = 0; k < OWN; ++k) bias[k] = q * OWN + k < COUT ? p.bias[q * OWN + k] : 0.f;
  wait_for_previous(breadcrumb);

  const ELEMENT* image = p.x + n * p.xs[0];
  // Two pixels at a time, so that all their loads are under way before the first is used.
#pragma unroll 1
  for (int first = threadIdx.x; first < PH * PW; first += 2 * THREADS) {
    float v[2][16] = {};
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) {
      const int i = first + twin * THREADS, row = i / PW, bh = y0 - p.pad_top + row, bw = x0 - p.pad_left + i % PW;
      const bool inside = i < PH * PW && (u32)bh < (u32)p.blocks_h && (u32)bw < (u32)p.blocks_w;
#pragma unroll
      for (int r = 0; r < BLOCK; ++r)
#pragma unroll
        for (int c = 0; c < C; ++c) {
          const int h = bh * BLOCK + r;
          const ELEMENT* from = image + h * p.xs[1] + c * p.xs[3];
#if PAIRS
          if (inside && h < p.in_h) {
            const Pair two = *(const Pair*)(from + bw * 2);
            v[twin][r * 2 * C + c] = f32_of(two.e[0]), v[twin][(r * 2 + 1) * C + c] = f32_of(two.e[1]);
          }
#else
#pragma unroll
          for (int k = 0; k < BLOCK; ++k) {
            const int w = bw * BLOCK + k;
            if (inside && h < p.in_h && w < p.in_w) v[twin][(r * BLOCK + k) * C + c] = f32_of(from[w * p.xs[2]]);
          }
#endif
        }
    }
    // 16-byte chunks of rows of 32 bytes, so that eight rows of one chunk lie in different banks.
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) {
      const int i = first + twin * THREADS;
      if (i >= PH * PW) break;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float* f = v[twin] + 8 * k;
        part[i * 2 + (k ^ (i >> 2 & 1))] = make_uint4(pack_halves(f[0], f[1]), pack_halves(f[2], f[3]),
                                                      pack_halves(f[4], f[5]), pack_halves(f[6], f[7]));
      }
    }
  }
  __syncthreads();

  const u32 base = (u32)__cvta_generic_to_shared(part);
#pragma unroll 1
  for (int tile = warp; tile < TH * 2; tile += THREADS / 32) {
    const int row = tile / 2, column = tile % 2 * 16, y = y0 + row;
    if (y >= p.out_h || x0 + column >= p.out_w) continue;
    float sum[WIDTH / 8][4];
#pragma unroll
    for (int k = 0; k < WIDTH / 8; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[k][e] = bias[2 * k + e % 2];
#pragma unroll
    for (int t = 0; t < TAPS; ++t) {
      const int at = (row + t / TAPS_W) * PW + column + (lane & 15) + t % TAPS_W;
      u32 a[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                   : "r"(base + at * 32 + (((lane >> 4) ^ (at >> 2 & 1)) << 4))
                   : "memory");
#pragma unroll
      for (int k = 0; k < WIDTH / 8; ++k)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sum[k][0]), "+f"(sum[k][1]), "+f"(sum[k][2]), "+f"(sum[k][3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(weight[t][k].x), "r"(weight[t][k].y));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int x = x0 + column + g + 8 * h;
      u32 out[OWN / 2];
#pragma unroll
      for (int k = 0; k < WIDTH / 8; ++k)
        out[k] = pack_halves(activate<ACT, true>(sum[k][2 * h], p.alpha, p.beta),
                             activate<ACT, true>(sum[k][2 * h + 1], p.alpha, p.beta));
      if (x >= p.out_w || q * OWN >= COUT) continue;
      float16* to = p.y + n * p.ys[0] + y * p.ys[1] + x * p.ys[2] + q * OWN;
#if WIDTH == 16
      *(uint2*)to = make_uint2(out[0], out[1]);
#else
#pragma unroll
      for (int k = 0; k < OWN / 8; ++k)
        ((uint4*)to)[k] = make_uint4(out[4 * k], out[4 * k + 1], out[4 * k + 2], out[4 * k + 3]);
#endif
    }
  }
}
