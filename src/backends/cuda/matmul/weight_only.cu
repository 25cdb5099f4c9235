// SPDX-License-Identifier: Apache-2.0
// Products of rows by weights of 4 or 8 bits in blocks, on mma.sync (compute capability 8.0 and later), whose left
// operand is 16 outputs' weights: integers less their zero point, exact in 16 bits; the sum of a block is in f32 and is
// then multiplied by its scale. A row of f32 is the sum of three of bf16, exact but for its last bits.
// A warp takes TILES tiles of 16 outputs and one of SPLIT parts of K; a block has WARPS warps and 8 * NT columns, which
// are rows of x or their parts. Weights are on their way before the kernel before has ended. Blocks of a size that is
// no multiple of 16 end in a gap.
// Macros: ELEMENT of x, RESULT of y and the residual; BITS; LOADS of 16 bytes a lane and group of K; BLOCK of the
// model; SCALE: weights of a scale here, 0: one for each output; WIDE 1: scales are f32, else f16; ZEROS, FACTORS 1:
// there are such; ALIGNED 1: rows lie at multiples of 16 bytes and K is one of 8; TAIL 0: K ends with a group; STREAM
// 1: L2 fetches what a warp will read; ACT, RESIDUAL.
typedef ELEMENT T;
typedef RESULT To;
#include "weight_only_params.h"
typedef tenon::cuda::WeightOnlyParams Params;

constexpr bool SPLITS = sizeof(T) == 4;
constexpr int PARTS = SPLITS ? 3 : 1, COLUMNS = 8 * NT, ROWS = COLUMNS / PARTS, CHUNK = BITS == 4 ? 64 : 32;
constexpr int GROUP = LOADS * CHUNK, SCALES = SCALE ? GROUP / SCALE : 0, SCALE_BYTES = WIDE ? 8 : 4;
// A block's room along K.
constexpr int ROOM = (BLOCK + 15) / 16 * 16;
constexpr bool GAPS = SCALE && ROOM > BLOCK;
constexpr bool FOURS = SCALE && SCALE < 32, EARLY = ALIGNED && NT <= 2;
constexpr int SLOTS = WARPS / SPLIT, PITCH = 20;
#if BF16 || FLOAT_ELEMENT
#define NAME "bf16"
#else
#define NAME "f16"
#endif

template <int BYTES>
struct __align__(BYTES < 16 ? BYTES : 16) Bytes {
  u8 e[BYTES];
};
union __align__(4 * sizeof(T)) Four {
  T e[4];
  u32 words[sizeof(T)];
};
template <int N>
struct __align__(N < 4 ? 4 * N : 16) Words {
  u32 e[N];
};
struct __align__(16) Eight {
  Four half[2];
};
// What a warp's lane needs for a group of K; with EARLY elements of x as well.
struct Stage {
  Eight x[EARLY ? GROUP / 32 : 1][EARLY ? NT : 1];
  uint4 weights[TILES][LOADS];
#if SCALE
  Words<SCALES * SCALE_BYTES / 4> scales[TILES];
#if ZEROS
  Bytes<SCALES * 2> zeros[TILES];
#endif
#endif
};

// a * b + c, of two 16-bit floats each.
__device__ __forceinline__ u32 fma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn." NAME "x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ u32 pair_of(float low, float high) {
  u32 r;
  asm("cvt.rn." NAME "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// With FIRST the sums begin.
template <bool FIRST>
__device__ __forceinline__ void multiply(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if (FIRST)
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.f));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Integers of a row as pairs of neighbours along K, less the zero point. They become floats by the bits of one whose
// last bit is worth 1: 1024 in f16, 128 in bf16, 2^23 in f32.
#if BITS == 4
__device__ __forceinline__ void cast(u32 (&d)[4], u32 word, u32, u32 zero) {
  constexpr u32 low = 0x000f000f;
#if BF16 || FLOAT_ELEMENT
  const u32 less = 0xc300c300u + zero * 0x10001u;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) d[pair] = fma2((word >> 4 * pair & low) | 0x43004300u, 0x3f803f80u, less);
#else
  // The bits of every other pair stand four higher: 1024 + 16 q, which is multiplied by 1/16.
  constexpr u32 high = 0x00f000f0, bits = 0x64006400, one = 0x3c003c00, sixteenth = 0x2c002c00;
  const u32 less = 0xe400e400u + zero * 0x10001u, less_high = 0xd400d400u + zero * 0x100010u, rest = word >> 8;
  d[0] = fma2((word & low) | bits, one, less), d[1] = fma2((word & high) | bits, sixteenth, less_high);
  d[2] = fma2((rest & low) | bits, one, less), d[3] = fma2((rest & high) | bits, sixteenth, less_high);
#endif
}
#else
__device__ __forceinline__ void cast(u32 (&d)[4], u32 word, u32 next, u32 zero) {
#if BF16 || FLOAT_ELEMENT
  const float less = __uint_as_float(0x4b000000u + zero);
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const u32 from = pair < 2 ? word : next;
    const float a = __uint_as_float(__byte_perm(from, 0x4b000000u, 0x7440 + pair % 2 * 2)) - less;
    const float b = __uint_as_float(__byte_perm(from, 0x4b000000u, 0x7441 + pair % 2 * 2)) - less;
    d[pair] = pair_of(a, b);
  }
#else
  const u32 less = 0xe400e400u + zero * 0x10001u;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair)
    d[pair] = fma2(__byte_perm(pair < 2 ? word : next, 0x64646464u, pair % 2 ? 0x4342 : 0x4140), 0x3c003c00u, less);
#endif
}
#endif

__device__ __forceinline__ void fetch(Stage& stage, const Params& p, const int (&tiles)[TILES], int group) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    const i64 at = (i64)tiles[t] * p.groups + group;
#pragma unroll
    for (int load = 0; load < LOADS; ++load)
      stage.weights[t][load] = *(const uint4*)(p.weights + ((at * LOADS + load) * 32 + lane) * 16);
#if SCALE
    const u8* const scales = p.scales + (at * 8 + lane / 4) * (SCALES * SCALE_BYTES);
    stage.scales[t] = *(const Words<SCALES * SCALE_BYTES / 4>*)scales;
#if ZEROS
    stage.zeros[t] = *(const Bytes<SCALES * 2>*)(p.zeros + (at * 8 + lane / 4) * (SCALES * 2));
#endif
#endif
  }
}

// Four elements from `at` on, zeros behind the end.
__device__ __forceinline__ Four four_of(const T* row, int at, int depth) {
  Four four = {};
  if constexpr (ALIGNED) {
    if (!TAIL || at < depth) four = *(const Four*)(row + at);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int in_block = (at + e) % ROOM, from = GAPS ? (at + e) / ROOM * BLOCK + in_block : at + e;
      if (from < depth && (!GAPS || in_block < BLOCK)) four.e[e] = row[from];
    }
  }
  return four;
}
// The eight that a lane takes of the 32 from k on: neighbours or, in blocks of 16, two fours that lie 16 apart.
__device__ __forceinline__ Eight eight_of(const T* row, int k, int depth) {
  const int lane = threadIdx.x & 3;
  Eight eight = {};
  if constexpr (ALIGNED && !FOURS) {
    if (!TAIL || k + lane * 8 < depth) eight = *(const Eight*)(row + k + lane * 8);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      eight.half[half] = four_of(row, FOURS ? k + half * 16 + lane * 4 : k + lane * 8 + half * 4, depth);
  }
  return eight;
}
// The right operand of two steps. PART of f32: what is left behind the parts before.
__device__ __forceinline__ void operand(u32 (&b)[4], const Eight& x, int part) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
#if FLOAT_ELEMENT
    const T* const v = x.half[pair / 2].e + pair % 2 * 2;
    float low = v[0], high = v[1];
    b[pair] = pair_of(low, high);
#pragma unroll
    for (int step = 1; step < 3; ++step) {
      low -= __uint_as_float(b[pair] << 16), high -= __uint_as_float(b[pair] & 0xffff0000u);
      const u32 next = pair_of(low, high);
      if (part >= step) b[pair] = next;
    }
#else
    b[pair] = x.half[pair / 2].words[pair % 2];
#endif
  }
}

__device__ __forceinline__ i64 place(const Params& p, const i64 (&strides)[3], int row) {
  const int third = row % p.third, rest = row / p.third;
  return rest / p.second * strides[0] + rest % p.second * strides[1] + third * strides[2];
}

struct Sums {
  float total[TILES][NT][4];
};

// One result, and what it is made of beside its sum.
struct Result {
  int row, n;
  bool real;
  float factor, bias, residual;

  __device__ __forceinline__ Result(const Params& p, int i, int tile) {
    const int slot = i / 16 / ROWS;
    row = blockIdx.y * ROWS + i / 16 % ROWS, n = ((blockIdx.x * SLOTS + slot) * TILES + tile) * 16 + i % 16;
    real = i < SLOTS * ROWS * 16 && row < p.m && n < p.n;
    factor = FACTORS && real ? p.factors[n] : 1.f;
    bias = p.bias && real ? p.bias[n] : 0.f;
    residual = 0.f;
  }
  __device__ __forceinline__ void read_residual(const Params& p) {
    if (RESIDUAL && real) residual = f32_of(p.residual[place(p, p.rs, row) + n]);
  }
  __device__ __forceinline__ void write(const Params& p, float sum) const {
    float v = sum;
    if (FACTORS) v *= factor;
    v += bias;
    if (RESIDUAL == 1) v += residual;
    v = activate<ACT, sizeof(To) == 2>(v, p.alpha, p.beta);
    p.y[place(p, p.ys, row) + n] = of_f32<To>(RESIDUAL == 2 ? v + residual : v);
  }
};

__device__ __forceinline__ void fetch_rows(Stage& stage, const T* const (&rows)[NT], int k0, int depth) {
  if (EARLY)
#pragma unroll
    for (int at = 0; at < GROUP; at += 32)
#pragma unroll
      for (int j = 0; j < NT; ++j) stage.x[EARLY ? at / 32 : 0][EARLY ? j : 0] = eight_of(rows[j], k0 + at, depth);
}

// Adds the products of a group. A lane's scales and zero points are those of rows lane / 4 and 8 more.
__device__ __forceinline__ void add_group(Sums& sums, const Stage& stage, const T* const (&rows)[NT],
                                          const int (&parts)[NT], const u32 (&row_zeros)[TILES][2], int k0, int depth) {
  float part[TILES][NT][4];
#pragma unroll
  for (int at = 0; at < GROUP; at += 32) {
    u32 b[NT][4];
#pragma unroll
    for (int j = 0; j < NT; ++j)
      operand(b[j], EARLY ? stage.x[EARLY ? at / 32 : 0][EARLY ? j : 0] : eight_of(rows[j], k0 + at, depth), parts[j]);
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const uint4& chunk = stage.weights[t][at / CHUNK];
      u32 low[4], high[4], zero[2][2];
#pragma unroll
      for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#if SCALE && ZEROS
          zero[step][half] = stage.zeros[t].e[(at + step * 16) / SCALE * 2 + half];
#else
          zero[step][half] = row_zeros[t][half];
#endif
        }
      const u32 words[4] = {BITS == 8 ? chunk.x : at % 64 ? chunk.z : chunk.x, BITS == 8 ? chunk.y : 0,
                            BITS == 8 ? chunk.z : at % 64 ? chunk.w : chunk.y, BITS == 8 ? chunk.w : 0};
      cast(low, words[0], words[1], zero[0][0]), cast(high, words[2], words[3], zero[0][1]);
      if (SCALE == 16 && ZEROS) {  // the second step has zero points of its own
        u32 more[4], others[4];
        cast(more, words[0], words[1], zero[1][0]), cast(others, words[2], words[3], zero[1][1]);
        low[2] = more[2], low[3] = more[3], high[2] = others[2], high[3] = others[3];
      }
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int k = at + step * 16;
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          float(&c)[4] = SCALE ? part[t][j] : sums.total[t][j];
          const u32 *x = low + 2 * step, *z = high + 2 * step, *y = b[j] + 2 * step;
          if (SCALE && k % (SCALE ? SCALE : 1) == 0) multiply<true>(c, x[0], z[0], x[1], z[1], y[0], y[1]);
          else multiply<false>(c, x[0], z[0], x[1], z[1], y[0], y[1]);
        }
#if SCALE
        if ((k + 16) % SCALE) continue;
        const u32* from = stage.scales[t].e + k / SCALE * (SCALE_BYTES / 4);
        const float scale[2] = {WIDE ? __uint_as_float(from[0]) : f32_of(half{(u16)from[0]}),
                                WIDE ? __uint_as_float(from[WIDE]) : f32_of(half{(u16)(from[0] >> 16)})};
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums.total[t][j][e] = fmaf(part[t][j][e], scale[e / 2], sums.total[t][j][e]);
#endif
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    weight_only(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  let_next_start();
  __shared__ float parts_of_sums[WARPS][COLUMNS][PITCH];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, split = warp % SPLIT;
  const int first = (blockIdx.x * SLOTS + warp / SPLIT) * TILES, m0 = blockIdx.y * ROWS;
  const int each = (p.groups + SPLIT - 1) / SPLIT, begin = split * each, end = min(p.groups, begin + each);
  int tiles[TILES];
  u32 row_zeros[TILES][2];
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    tiles[t] = min(first + t, p.tiles - 1);
    row_zeros[t][0] = row_zeros[t][1] = 1 << (BITS - 1);
    if (!SCALE && ZEROS)
      for (int half = 0; half < 2; ++half) row_zeros[t][half] = p.zeros[(tiles[t] * 8 + lane / 4) * 2 + half];
  }
  Stage stage;
  if (begin < end) fetch(stage, p, tiles, begin);
#if STREAM
  constexpr int BYTES = LOADS * 512, SCALE_PART = SCALES * SCALE_BYTES * 8;
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    const i64 from = (i64)tiles[t] * p.groups + begin;
    for (int at = BYTES + lane * 128; at < (end - begin) * BYTES; at += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weights + from * BYTES + at));
    for (int at = SCALE_PART + lane * 128; at < (end - begin) * SCALE_PART; at += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(p.scales + from * SCALE_PART + at));
  }
#endif
  // A thread that has one result at most reads what is added to it while the sums are made.
  constexpr bool ONE = TILES == 1 && SLOTS * ROWS * 16 <= WARPS * 32;
  Result own(p, ONE ? threadIdx.x : SLOTS * ROWS * 16, 0);
  const T* rows[NT];
  int parts[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    // Columns of no row read one that is there: nobody takes what they give.
    const int column = j * 8 + lane / 4;
    parts[j] = column % PARTS;
    rows[j] = p.x + place(p, p.xs, min(m0 + column / PARTS, p.m - 1));
  }
  wait_for_previous(breadcrumb);
  if (begin < end) fetch_rows(stage, rows, begin * GROUP, p.k);
  if (ONE) own.read_residual(p);

  Sums sums = {};
  for (int group = begin; group < end; ++group) {
    Stage next;
    if (group + 1 < end) {
      fetch(next, p, tiles, group + 1);
      fetch_rows(next, rows, (group + 1) * GROUP, p.k);
    }
    add_group(sums, stage, rows, parts, row_zeros, group * GROUP, p.k);
    stage = next;
  }

#pragma unroll
  for (int t = 0; t < TILES; ++t) {
    if (t) __syncthreads();
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        parts_of_sums[warp][j * 8 + lane % 4 * 2 + e % 2][lane / 4 + e / 2 * 8] = sums.total[t][j][e];
    __syncthreads();
    for (int i = threadIdx.x; i < SLOTS * ROWS * 16; i += WARPS * 32) {
      if (!ONE) own = Result(p, i, t), own.read_residual(p);
      if (!own.real) continue;
      float v = 0;
#pragma unroll
      for (int s = 0; s < SPLIT; ++s)
#pragma unroll
        for (int part = PARTS - 1; part >= 0; --part)
          v += parts_of_sums[i / 16 / ROWS * SPLIT + s][i / 16 % ROWS * PARTS + part][i % 16];
      own.write(p, v);
    }
  }
}
