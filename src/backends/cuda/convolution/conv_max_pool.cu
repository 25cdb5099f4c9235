// SPDX-License-Identifier: Apache-2.0
// A convolution of C channels (4 at most) with stride 2 and the maximum of its results in windows of 3x3 with stride 2,
// on mma.sync (compute capability 8.0 and later), straight from an image with any strides. A block keeps its part of
// the image in shared memory as pixels of four bytes (BYTES 1) or as two planes of pixels of two channels of 16 bits,
// so that each load of a word is an operand. A warp makes 7 columns of NW channels, row after row, with its weights in
// registers. What the convolution makes stays in registers as well: lanes g hold its columns 2 g and 2 g + 1 of 16, and
// the third one of a window is their neighbours'. Behind quantise.cuh and int8.cuh. Macros: ELEMENT, KH, KW (8 at
// most), TH (rows of maxima of a block), STRIPS (of 7 columns), WIDTH (channels, a multiple of NW), COUT, QUADS (four
// neighbours are read at once), AHEAD (with QUADS, of f32: the next tile's part is on its way while one is multiplied),
// LEAST_BLOCKS (of a multiprocessor).
// Weights: [WIDTH / NW][step][8 results][lane][2], position n of 8 t holding result n / 2 * (NW / 4) + 2 t + n % 2. A
// step is 4 pixels in a row, of bytes 8 pixels or, where KW is at most 4, 4 in each of two rows.
constexpr int CHUNKS = KW > 4 ? 2 : 1, ROWS = BYTES && CHUNKS == 1 ? 2 : 1, ACROSS = BYTES ? 1 : CHUNKS;
constexpr int HIGH = (KH + ROWS - 1) / ROWS * ROWS, STEPS = HIGH / ROWS * ACROSS;
// Four neighbours begin at a multiple of four of the image, so a part may begin up to three pixels early.
constexpr int PH = 4 * TH + HIGH, PW = 28 * STRIPS + 8 + 4 * CHUNKS, COUNT = PH * PW;
constexpr int GROUPS = WIDTH / NW, THREADS = 32 * STRIPS * GROUPS, NT = NW / 8, OWN = NW / 4;
constexpr int TOGETHER = 3;  // times four neighbours that a thread has on the way

#if BYTES
typedef int Number;
typedef u8 Y;
constexpr int PLANES = 1, BESIDE = CHUNKS == 2 ? 4 : PW;
__device__ __forceinline__ int larger(int a, int b) { return max(a, b); }
#else
typedef float Number;
typedef float16 Y;
constexpr int PLANES = 2, BESIDE = COUNT;
__device__ __forceinline__ float larger(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}
#endif
typedef Number Line[NT][4];  // columns 2 g and 2 g + 1, two channels each

#include "conv_max_pool_params.h"
typedef tenon::cuda::ConvMaxPoolParams Params;

__device__ __forceinline__ void multiply(Number (&sum)[4], const u32 (&a)[4], uint2 b) {
#if BYTES
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#endif
}

// Neighbouring rows of the convolution: what both read is loaded once.
template <int LINES>
__device__ __forceinline__ void convolve(Line (&sum)[LINES], const u32* even, const u32* odd,
                                         const uint2 (&weight)[STEPS][NT], const Number (&start)[OWN]) {
#pragma unroll
  for (int line = 0; line < LINES; ++line)
#pragma unroll
    for (int t = 0; t < NT; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[line][t][e] = start[2 * t + e % 2];
#pragma unroll
  for (int r = 0; r < HIGH + 2 * (LINES - 1); r += ROWS)
#pragma unroll
    for (int c = 0; c < ACROSS; ++c) {
      const int at = r * PW + 4 * c;
      const u32 a[4] = {even[at], odd[at], even[at + BESIDE], odd[at + BESIDE]};
#pragma unroll
      for (int line = 0; line < LINES; ++line) {
        const int k = r - 2 * line;
        if (k < 0 || k >= HIGH) continue;
#pragma unroll
        for (int t = 0; t < NT; ++t) multiply(sum[line][t], a, weight[k / ROWS * ACROSS + c][t]);
      }
    }
}

// What lies outside of the image, not quantised yet.
template <class T> __device__ __forceinline__ T outside_of(int) { return T(); }
template <> __device__ __forceinline__ u8 outside_of<u8>(int zero) { return (u8)zero; }

struct __align__(4 * sizeof(ELEMENT)) Quad {
  ELEMENT e[4];
};

__device__ __forceinline__ void keep(uint4* to, const ELEMENT (&f)[4 * C], const Params& p) {
#if BYTES
  int v[4 * C];
  quantise(f, v, p.x_scale, p.x_inverse, p.x_zero);
  const auto number = [&](int k, int c) { return c < C ? v[k * C + c % C] : 0; };
  const auto word = [&](int k) { return pack_bytes(number(k, 0), number(k, 1), number(k, 2), number(k, 3)); };
  to[0] = make_uint4(word(0), word(1), word(2), word(3));
#else
  const auto number = [&](int k, int c) { return c < C ? f32_of(f[k * C + c % C]) : 0.f; };
#pragma unroll
  for (int plane = 0; plane < PLANES; ++plane) {
    const auto word = [&](int k) { return pack_halves(number(k, 2 * plane), number(k, 2 * plane + 1)); };
    to[plane * (COUNT / 4)] = make_uint4(word(0), word(1), word(2), word(3));
  }
#endif
}

// The part of a block: its image, and the image's row and column that it begins at.
struct Place {
  const ELEMENT* image;
  int top, left;
};

#if AHEAD
// All of a part on its way to shared memory, as it is; zeros stand for what lies outside.
__device__ __forceinline__ void fetch(Quad* raw, const Params& p, const Place& at) {
#pragma unroll 1
  for (int i = threadIdx.x; i < COUNT / 4; i += THREADS) {
    const int h = at.top + i / (PW / 4), w = at.left + i % (PW / 4) * 4;
    const bool inside = (u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w;
    const ELEMENT* from = inside ? at.image + h * p.row + w : at.image;
    const u32 to = (u32)__cvta_generic_to_shared(raw + i);
#pragma unroll
    for (int c = 0; c < C; ++c)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + c * (COUNT * 4)),
                   "l"(from + c * p.channel), "r"(inside ? 16 : 0)
                   : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void unpack(u32* part, const Quad* raw, const Params& p) {
#pragma unroll 1
  for (int i = threadIdx.x; i < COUNT / 4; i += THREADS) {
    ELEMENT f[4 * C];
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const Quad quad = raw[c * (COUNT / 4) + i];
#pragma unroll
      for (int k = 0; k < 4; ++k) f[k * C + c] = quad.e[k];
    }
    keep((uint4*)part + i, f, p);
  }
}
#else
// Four neighbours at a time; with QUADS they lie all inside of the image or all outside.
__device__ __forceinline__ void read(ELEMENT (&f)[4 * C], const Params& p, const ELEMENT* image, int h, int w) {
#pragma unroll
  for (int k = 0; k < 4 * C; ++k) f[k] = outside_of<ELEMENT>(p.x_zero);
  if ((u32)h >= (u32)p.in_h) return;
  const ELEMENT* from = image + h * p.row + w * p.pixel;
#pragma unroll
  for (int c = 0; c < C; ++c)
    if (QUADS && (u32)w < (u32)p.in_w) {
      const Quad quad = *(const Quad*)(from + c * p.channel);
#pragma unroll
      for (int k = 0; k < 4; ++k) f[k * C + c] = quad.e[k];
    } else if (!QUADS) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if ((u32)(w + k) < (u32)p.in_w) f[k * C + c] = from[k * p.pixel + c * p.channel];
    }
}

__device__ __forceinline__ void load(u32* part, const Params& p, const Place& at) {
#pragma unroll 1
  for (int first = threadIdx.x; first < COUNT / 4; first += TOGETHER * THREADS) {
    ELEMENT f[TOGETHER][4 * C];
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k) {
      const int i = first + k * THREADS;
      read(f[k], p, at.image, i < COUNT / 4 ? at.top + i / (PW / 4) : -1, at.left + i % (PW / 4) * 4);
    }
#pragma unroll
    for (int k = 0; k < TOGETHER; ++k)
      if (first + k * THREADS < COUNT / 4) keep((uint4*)part + first + k * THREADS, f[k], p);
  }
}
#endif

// The results of one pixel, from this lane's own first channel on.
__device__ __forceinline__ void store(Y* to, const Number (&best)[OWN], const Params& p, int channel) {
  u32 words[OWN * sizeof(Y) / 4];
#if BYTES
#pragma unroll
  for (int k = 0; k < OWN / 4; ++k) {
    const float4 scale4 = *(const float4*)(p.lists.scale + channel + 4 * k),
                 bias4 = *(const float4*)(p.lists.bias + channel + 4 * k);
    const float scale[4] = {scale4.x, scale4.y, scale4.z, scale4.w}, bias[4] = {bias4.x, bias4.y, bias4.z, bias4.w};
    int v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      v[e] = steps_of(real_of<true, true>(best[4 * k + e], scale[e], bias[e], Added{}, p.finish),
                      inverse_of(p.lists.inverses, channel + 4 * k + e, p.finish), p.finish);
    words[k] = pack_bytes(v[0], v[1], v[2], v[3]);
  }
#else
#pragma unroll
  for (int k = 0; k < OWN / 2; ++k)
    words[k] = pack_halves(activate<ACT, true>(best[2 * k], p.finish.alpha, p.finish.beta),
                           activate<ACT, true>(best[2 * k + 1], p.finish.alpha, p.finish.beta));
#endif
  if (sizeof words == 4) *(u32*)to = words[0];
  if (sizeof words == 8) *(uint2*)to = make_uint2(words[0], words[1 % (OWN * sizeof(Y) / 4)]);
#pragma unroll
  for (int k = 0; k + 4 <= sizeof words / 4; k += 4)
    *(uint4*)(to + k * 4 / sizeof(Y)) = make_uint4(words[k], words[k + 1], words[k + 2], words[k + 3]);
}

extern "C" __global__ void __launch_bounds__(THREADS, LEAST_BLOCKS)
    conv_max_pool(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  u32* part = (u32*)memory;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  const int strip = warp % STRIPS, group = warp / STRIPS, channel = group * NW + q * OWN;
  // Weights come from no kernel before this one.
  uint2 weight[STEPS][NT];
#pragma unroll
  for (int s = 0; s < STEPS; ++s)
#pragma unroll
    for (int t = 0; t < NT; ++t) weight[s][t] = p.w[((group * STEPS + s) * NT + t) * 32 + lane];
  Number start[OWN];
#pragma unroll
  for (int k = 0; k < OWN; ++k)
    start[k] = BYTES ? (Number)p.lists.zero_sums[channel + k] : (Number)p.lists.bias[channel + k];
  wait_for_previous(breadcrumb);

  // The first row and column of maxima of a tile, and the image's part for it.
  const auto row_of = [&](int tile) { return tile / p.tiles_x % p.tiles_y * TH; };
  const auto column_of = [&](int tile) { return tile % p.tiles_x * 7 * STRIPS; };
  const auto place_of = [&](int tile) {
    return Place{p.x + tile / p.tiles_x / p.tiles_y * p.image, 2 * (2 * row_of(tile) - p.pool_top) - p.pad_top,
                 2 * (2 * column_of(tile) - p.pool_left) - p.pad_left - p.skew};
  };
#if AHEAD
  Quad* raw = (Quad*)(part + PLANES * COUNT);
  if (blockIdx.x < p.tiles) fetch(raw, p, place_of(blockIdx.x));
#endif
#pragma unroll 1
  for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
#if AHEAD
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    unpack(part, raw, p);
    __syncthreads();
    if (tile + gridDim.x < p.tiles) fetch(raw, p, place_of(tile + gridDim.x));
#else
    __syncthreads();
    load(part, p, place_of(tile));
    __syncthreads();
#endif
    // The first row and column that the convolution makes here, and those of this warp and lane.
    const int x0 = column_of(tile), y0 = row_of(tile), n = tile / p.tiles_x / p.tiles_y;
    const int first_row = 2 * y0 - p.pool_top, first_column = 2 * x0 - p.pool_left;
    // Of a row or column outside the nearest one inside takes the place: it lies in the same windows.
    const int column = first_column + 14 * strip + 2 * g, x = x0 + 7 * strip + g;
    const auto pixel_of = [&](int made) {
      return part + p.skew + q + 2 * (min(max(made, 0), p.conv_w - 1) - first_column);
    };
    const u32 *even = pixel_of(column), *odd = pixel_of(column + 1);
    Y* to = p.y + n * p.ys[0] + (i64)y0 * p.ys[1] + x * p.ys[2] + channel;
    const bool stores = g < 7 && x < p.out_w && channel < COUT;
    Line last[1];  // the row above the next two
    const int above = first_row < 0 ? 2 * PW : 0;
    convolve(last, even + above, odd + above, weight, start);
#pragma unroll 1
    for (int row = 0; row < TH && y0 + row < p.out_h; ++row, to += p.ys[1]) {
      Line two[2];
      const int below = first_row + 2 * row + 2 < p.conv_h ? 2 * PW : 0;
      convolve(two, even + below, odd + below, weight, start);
      even += 4 * PW, odd += 4 * PW;
      Number best[OWN];
#pragma unroll
      for (int t = 0; t < NT; ++t)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const auto of = [&](int at) { return larger(larger(last[0][t][at], two[0][t][at]), two[1][t][at]); };
          const Number own = of(e);
          best[2 * t + e] = larger(larger(own, of(e + 2)), __shfl_down_sync(0xffffffffu, own, 4));
        }
#pragma unroll
      for (int t = 0; t < NT; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) last[0][t][e] = two[1][t][e];
      if (stores) store(to, best, p, channel);
    }
  }
}
// For the host: bytes of shared memory.
extern "C" __device__ const int meta[1] = {4 * PLANES * COUNT + (AHEAD ? C * COUNT * (int)sizeof(ELEMENT) : 0)};
