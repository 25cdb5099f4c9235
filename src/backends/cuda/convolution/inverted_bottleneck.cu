// SPDX-License-Identifier: Apache-2.0
// Expansion by 1x1, depthwise convolution and projection by 1x1 as one kernel (the "inverted bottleneck" of
// MobileNetV2), or two neighbours of them, on mma.sync (compute capability 8.0 and later), channels last in 16 bits,
// sums in f32. A block makes a tile of pixels; the hidden channels come 32 at a time: expanded over the tile and the
// border that its windows see into shared memory, then convolved by diagonal matrices, whose results are operands of
// the projection as they lie in registers. diagonal.cuh's products stand before this text. Macros:
//   EXPAND 1: there is an expansion, of CI channels; 0: the hidden channels are the input's, CI is 32
//   PROJECT 1: there is a projection, to CO channels, padded to 32; 0: the hidden channels are the output's, CO is 0
//   WINDOW 3 or 5: the depthwise convolution is WINDOW x WINDOW; STRIDE its stride, 1 or 2, both ways
//   COLS times 8 columns a tile; WARPS a block; each makes 8 columns of UNITS rows in the upper half of the tile and
//   the same in the lower half, which are the two halves of its products' rows
//   BLOCKS a multiprocessor; ACT_E, ACT_D activations behind the first two (UpToBeta: between 0 and beta)
//   ACT, RESIDUAL of the projection
//   SPLIT 1: blocks share a tile along hidden channels; of projections the last one adds their sums in order
// Weights: a record for each 32 hidden channels as it lies in shared memory. Of those 32, lane 4 g + q owns 4 q to
// 4 q + 3 and 16 + 4 q to 16 + 4 q + 3, in pairs j of two. The bias of the expansion is weights of channels behind the
// input's, whose numbers are 1 in the image and 0 outside: so hidden pixels are zeros there.
constexpr int THREADS = WARPS * 32, TW = COLS * 8, HALF = WARPS / COLS * UNITS, TH = 2 * HALF;
constexpr int IN_H = (TH - 1) * STRIDE + WINDOW, IN_W = (TW - 1) * STRIDE + WINDOW, HALO = IN_H * IN_W;
// Pixels that a half sees, and from it to the same of the other; EU groups of 8 a warp, EC at a time.
constexpr int SEEN = ((HALF - 1) * STRIDE + WINDOW) * IN_W, APART = HALF * STRIDE * IN_W;
constexpr int GROUPS = (SEEN + 7) / 8, EU = (GROUPS + WARPS - 1) / WARPS, EC = EU < 2 ? EU : 2;
// Rows of odd multiples of 16 bytes for ldmatrix. For each pair j of channels hidden pixels lie apart ("plane"), each
// the words of both halves for every q; padded such that those read at once lie in different banks.
constexpr int CK = EXPAND ? CI + 8 : CI, X_ROW = CK * 2 + (CK / 8 % 2 ? 0 : 16), E_ROW = STRIDE == 1 ? 32 : 48;
constexpr int X_BYTES = (HALO + 7) * X_ROW, PLANE = GROUPS * 8 * E_ROW, X_COUNT = EXPAND ? 1 : 2, P_ROW = 80;
// A record: [32][CK] of the expansion, rows padded; [CO][32] of the projection, rows padded; [32][WINDOW] rows of the
// depthwise convolution, padded to 4 or 8 numbers, and its bias in f32.
constexpr int TAP_ROW = WINDOW == 3 ? 8 : 16, TAPS = WINDOW * TAP_ROW, PAIRS = WINDOW / 2;
constexpr int P_AT = EXPAND ? 32 * X_ROW : 0, T_AT = P_AT + CO * P_ROW, B_AT = T_AT + 32 * TAPS, RECORD = B_AT + 128;
static_assert(WARPS % COLS == 0 && CI % 8 == 0 && CO % 32 == 0 && (WINDOW == 3 || WINDOW == 5), "tile");

#include "inverted_bottleneck_params.h"
#include "mma.cuh"
typedef tenon::cuda::InvertedBottleneckParams Params;

// Both activated and rounded. Bounds may come after rounding, which keeps the order of numbers.
struct UpToBeta {};  // a Clip from 0 on
template <class E> __device__ __forceinline__ u32 activate_pair(float low, float high, float alpha, float beta) {
  if constexpr (!same<E, tenon::expr::Relu> && !same<E, UpToBeta>)
    return pack_halves(activate<E, true>(low, alpha, beta), activate<E, true>(high, alpha, beta));
  u32 pair;
  asm("cvt.rn.relu." FLOAT16_NAME "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  if (same<E, UpToBeta>) asm("min.NaN." FLOAT16_NAME "x2 %0, %0, %1;" : "+r"(pair) : "r"(pack_halves(beta, beta)));
  return pair;
}

// Where the tile and its border begin.
struct Tile {
  int n, r0, q0, h0, w0;
};

__device__ __forceinline__ bool is_inside(const Tile& t, const Params& p, int pixel) {
  return (u32)(t.h0 + pixel / IN_W) < (u32)p.in_h && (u32)(t.w0 + pixel % IN_W) < (u32)p.in_w;
}

// CI channels from c on of all pixels that the tile's windows see; zeros outside.
__device__ __forceinline__ void load_pixels(u32 to, const Params& p, const Tile& t, int c) {
  constexpr int CHUNKS = CK / 8;
  for (int i = threadIdx.x; i < HALO * CHUNKS; i += THREADS) {
    const int pixel = i / CHUNKS, chunk = i % CHUNKS, h = t.h0 + pixel / IN_W, w = t.w0 + pixel % IN_W;
    const bool inside = (u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w;
    const u32 place = to + pixel * X_ROW + chunk * 16;
    if (EXPAND && chunk == CI / 8) {
      constexpr u32 ONE = BF16 ? 0x3f80 : 0x3c00;
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %3};" ::"r"(place), "r"(inside ? ONE << 16 | ONE : 0),
                   "r"(inside ? ONE : 0), "r"(0)
                   : "memory");
      continue;
    }
    const bool there = inside && c + chunk * 8 < p.c_in;
    const float16* from = p.x + t.n * p.xs[0] + h * p.xs[1] + w * p.xs[2] + c + chunk * 8;
    copy16(place, there ? from : p.x, there);
  }
}

// A record to shared memory; both places are the thread's own.
__device__ __forceinline__ void load_record(u32 to, const u8* from) {
#pragma unroll
  for (int at = 0; at < RECORD; at += THREADS * 16)
    if (at + THREADS * 16 <= RECORD || at + threadIdx.x * 16 < RECORD) copy16(to + at, from + at, true);
}

// Addresses in shared memory that are the lane's own; kept, as they would be computed again and again.
struct Own {
  u32 pixels;           // operand rows of the input's pixels, upper half
  u32 expand, last;     // operand rows of the expansion's weights, and those of eight channels left over
  u32 hidden;           // to where it writes hidden pixels
  u32 window;           // of hidden pixels that it convolves
  u32 taps, bias;       // of the depthwise convolution
  u32 project;          // operand rows of the projection's weights
  u32 of_low, of_high;  // bytes of a word as an element of a diagonal matrix
};
__device__ __forceinline__ u32 kept(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ __forceinline__ uint2 load_pair(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ void store_pair(u32 to, u32 x, u32 y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}

// Hidden pixels of the first 16 channels, or of all, from those of the input. `x`, `record`: bytes from where `own`
// points to.
__device__ __forceinline__ void fill(const Own& own, u32 x, u32 record, bool all, const Params& p) {
#if EXPAND
  const int warp = threadIdx.x >> 5;
#pragma unroll
  for (int first = 0; first < EU; first += EC) {
    float sum[EC][4][4] = {};
#pragma unroll
    for (int k = 0; k < (CK + 15) / 16; ++k) {
      const bool whole = 16 * k + 16 <= CK;
      u32 b[2][4];
      if (whole) load4(b[0], own.expand + record + k * 32), load4(b[1], own.expand + record + 16 * X_ROW + k * 32);
      else load4(b[0], own.last + record);
#pragma unroll
      for (int u = first; u < EU && u < first + EC; ++u) {
        if ((u + 1) * WARPS > GROUPS && u * WARPS + warp >= GROUPS) continue;
        u32 a[4];
        if (whole) load4(a, own.pixels + u * WARPS * 8 * X_ROW + k * 32);
        else load2(*(u32(*)[2])a, own.pixels + u * WARPS * 8 * X_ROW + k * 32);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!whole) multiply(sum[u - first][j], a[0], a[1], b[0][j]);
          else
            multiply(sum[u - first][j], a[0], a[1], a[2], a[3], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int u = first; u < EU && u < first + EC; ++u) {
      if ((u + 1) * WARPS > GROUPS && u * WARPS + warp >= GROUPS) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j > 1 && !all) continue;
        const float(&s)[4] = sum[u - first][j];
        store_pair(own.hidden + j * PLANE + u * WARPS * 8 * E_ROW,
                   activate_pair<ACT_E>(s[0], s[1], p.alpha_e, p.beta_e),
                   activate_pair<ACT_E>(s[2], s[3], p.alpha_e, p.beta_e));
      }
    }
  }
#else
#pragma unroll
  for (int u = 0; u < EU; ++u) {
    if ((u + 1) * WARPS > GROUPS && u * WARPS + (threadIdx.x >> 5) >= GROUPS) continue;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const u32 from = own.pixels + x + u * WARPS * 8 * X_ROW + k * 32;
      const uint2 upper = load_pair(from), lower = load_pair(from + APART * X_ROW);
      const u32 to = own.hidden + 2 * k * PLANE + u * WARPS * 8 * E_ROW;
      store_pair(to, upper.x, lower.x), store_pair(to + PLANE, upper.y, lower.y);
    }
  }
#endif
}

// A row of WINDOW neighbouring pixels in both halves, as operands: two taps each, and one.
struct Row {
  u32 two[PAIRS][4], one[2];
};

// The depthwise convolution of the warp's pixels for pair j of channels: [unit][half].
__device__ __forceinline__ void convolve(u32 (&out)[UNITS][2], const Own& own, u32 record, int j, const Params& p) {
  const int first = j / 2 * 16 + j % 2 * 2;
  u32 weight[WINDOW][WINDOW];
#pragma unroll
  for (int r = 0; r < WINDOW; ++r)
#pragma unroll
    for (int k = 0; k < WINDOW; k += 4) {
      const uint2 v = load_pair(own.taps + record + first * TAPS + r * TAP_ROW + k * 2);
#pragma unroll
      for (int e = k; e < WINDOW && e < k + 4; ++e)
        weight[r][e] = __byte_perm(e < k + 2 ? v.x : v.y, 0, e % 2 ? own.of_high : own.of_low);
    }
  const uint2 add = load_pair(own.bias + record + first * 4);
  const float bias[4] = {__uint_as_float(add.x), __uint_as_float(add.y), __uint_as_float(add.x),
                         __uint_as_float(add.y)};
  Row rows[WINDOW];
#pragma unroll
  for (int unit = 0; unit < UNITS; ++unit) {
#pragma unroll
    for (int r = 0; r < WINDOW; ++r) {
      Row& row = rows[r];
      if (unit > 0 && r + STRIDE < WINDOW) {
        row = rows[r + STRIDE];
        continue;
      }
      const u32 from = own.window + j * PLANE + (unit * STRIDE + r) * IN_W * E_ROW;
#pragma unroll
      for (int k = 0; k < WINDOW - 1; ++k) *(uint2*)&row.two[k / 2][k % 2 * 2] = load_pair(from + k * E_ROW);
      *(uint2*)&row.one[0] = load_pair(from + (WINDOW - 1) * E_ROW);
    }
    float sum[4];
#pragma unroll
    for (int r = 0; r < WINDOW; ++r) {
#pragma unroll
      for (int k = 0; k < PAIRS; ++k) {
        const u32(&two)[4] = rows[r].two[k];
        if (r + k == 0) multiply_add(sum, two, weight[0][0], weight[0][1], bias);
        else multiply(sum, two[0], two[1], two[2], two[3], weight[r][2 * k], weight[r][2 * k + 1]);
      }
      multiply(sum, rows[r].one[0], rows[r].one[1], weight[r][WINDOW - 1]);
    }
    out[unit][0] = activate_pair<ACT_D>(sum[0], sum[1], p.alpha_d, p.beta_d);
    out[unit][1] = activate_pair<ACT_D>(sum[2], sum[3], p.alpha_d, p.beta_d);
  }
}

#if SPLIT && PROJECT
struct __align__(16) Sums {
  float e[4];
};
// The sums of all blocks of the tile, in the one that comes last; false in the others.
__device__ __forceinline__ bool gather(float (&sum)[UNITS][CO / 8][4], const Params& p) {
  constexpr int COUNT = UNITS * (CO / 8) * THREADS;
  __shared__ bool last;
  Sums* const tile = (Sums*)p.partial + (i64)blockIdx.x * p.splits * COUNT;
#pragma unroll
  for (int u = 0; u < UNITS; ++u)
#pragma unroll
    for (int j = 0; j < CO / 8; ++j)
      tile[(i64)blockIdx.y * COUNT + (u * (CO / 8) + j) * THREADS + threadIdx.x] = *(Sums*)sum[u][j];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(p.counters + blockIdx.x, 1) == p.splits - 1;
  __syncthreads();
  if (!last) return false;
  if (threadIdx.x == 0) p.counters[blockIdx.x] = 0;
  __threadfence();
#pragma unroll
  for (int u = 0; u < UNITS; ++u)
#pragma unroll
    for (int j = 0; j < CO / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[u][j][c] = 0;
  for (int k = 0; k < p.splits; ++k)
#pragma unroll
    for (int u = 0; u < UNITS; ++u)
#pragma unroll
      for (int j = 0; j < CO / 8; ++j) {
        float v[4];
        asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                     : "l"(tile + (i64)k * COUNT + (u * (CO / 8) + j) * THREADS + threadIdx.x));
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[u][j][c] += v[c];
      }
  return true;
}
#endif

#if PROJECT
// Eight neighbouring channels of a pixel of the result.
__device__ __forceinline__ void store(const float (&v)[8], const float4 (&bias)[2], const Params& p, i64 at,
                                      i64 other) {
  const float b[8] = {bias[0].x, bias[0].y, bias[0].z, bias[0].w, bias[1].x, bias[1].y, bias[1].z, bias[1].w};
  uint4 residual = {};
  if (RESIDUAL) residual = *(const uint4*)(p.residual + other);
  u32 words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float pair[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      pair[c] = v[2 * j + c] + b[2 * j + c];
      if (RESIDUAL == 1) pair[c] += half_of(word_of(residual, j), c);
      pair[c] = activate<ACT, true>(pair[c], p.alpha, p.beta);
      if (RESIDUAL == 2) pair[c] += half_of(word_of(residual, j), c);
    }
    words[j] = pack_halves(pair[0], pair[1]);
  }
  *(uint4*)(p.y + at) = make_uint4(words[0], words[1], words[2], words[3]);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    inverted_bottleneck(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 x_at = (u32)__cvta_generic_to_shared(memory), hidden_at = x_at + X_COUNT * X_BYTES;
  const u32 records_at = hidden_at + 4 * PLANE;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  Tile t;
  t.q0 = blockIdx.x % p.tiles_w * TW, t.r0 = blockIdx.x / p.tiles_w % p.tiles_h * TH;
  t.n = blockIdx.x / p.tiles_w / p.tiles_h;
  t.h0 = t.r0 * STRIDE - p.pad_top, t.w0 = t.q0 * STRIDE - p.pad_left;
  const int slices = (p.hidden + 31) / 32, first = SPLIT ? blockIdx.y * slices / p.splits : 0;
  const int end = SPLIT ? (blockIdx.y + 1) * slices / p.splits : slices;

  // Weights come from no kernel before this one.
  const u8* weights = p.w + (i64)first * RECORD + threadIdx.x * 16;
  const u32 to_record = kept(records_at + threadIdx.x * 16);
  load_record(to_record, weights);
  wait_for_previous(breadcrumb);
  load_pixels(x_at, p, t, EXPAND ? 0 : first * 32);
  asm volatile("cp.async.commit_group;" ::: "memory");

  const int column = warp % COLS * 8 + g, row = warp / COLS * UNITS;
  const int eight = lane & 7, odd = lane >> 3 & 1, upper = lane >> 4, mine = q == g >> 1;
  const u32 pixels = EXPAND ? (warp * 8 + eight + odd * APART) * X_ROW + upper * 16 : (warp * 8 + g) * X_ROW + q * 8;
  const Own own{kept(x_at + pixels),
                kept(records_at + (eight + upper * 8) * X_ROW + odd * 16),
                kept(records_at + lane * X_ROW + CK / 16 * 32),
                kept(hidden_at + (warp * 8 + g) * E_ROW + q * 8),
                kept(hidden_at + (row * IN_W + column) * STRIDE * E_ROW + q * 8),
                kept(records_at + T_AT + (4 * q + (g & 1)) * TAPS),
                kept(records_at + B_AT + q * 16),
                kept(records_at + P_AT + (eight + upper * 8) * P_ROW + odd * 16),
                kept(!mine ? 0x4444 : g & 1 ? 0x1044 : 0x4410),
                kept(!mine ? 0x4444 : g & 1 ? 0x3244 : 0x4432)};
#if PROJECT
  float sum[UNITS][CO / 8][4] = {};
#endif
  u32 record = 0, x = 0;  // bytes to the slice's own
  for (int slice = first; slice < end; ++slice) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (slice + 1 < end) {
      weights += RECORD;
      load_record(to_record + (record ^ RECORD), weights);
      if (!EXPAND) load_pixels(x_at + (x ^ X_BYTES), p, t, (slice + 1) * 32);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const bool all = slice * 32 + 16 < p.hidden;
    fill(own, EXPAND ? 0 : x, record, all, p);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (k > 0 && !all) break;
      u32 a[2][UNITS][2];
#pragma unroll
      for (int j = 0; j < 2; ++j) convolve(a[j], own, record, 2 * k + j, p);
#if PROJECT
#pragma unroll
      for (int n = 0; n < CO / 16; ++n) {
        u32 b[4];
        load4(b, own.project + record + n * 16 * P_ROW + k * 32);
#pragma unroll
        for (int u = 0; u < UNITS; ++u)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            multiply(sum[u][2 * n + half], a[0][u][0], a[0][u][1], a[1][u][0], a[1][u][1], b[2 * half],
                     b[2 * half + 1]);
      }
#else
      const int channel = slice * 32 + k * 16 + 4 * q;
      const bool there = channel < p.hidden && t.q0 + column < p.out_w;
#pragma unroll
      for (int u = 0; u < UNITS; ++u)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int oh = t.r0 + row + u + half * HALF;
          float16* to = p.y + t.n * p.ys[0] + oh * p.ys[1] + (t.q0 + column) * p.ys[2] + channel;
          if (there && oh < p.out_h) *(uint2*)to = make_uint2(a[0][u][half], a[1][u][half]);
        }
#endif
    }
    record ^= RECORD, x ^= X_BYTES;
  }
#if PROJECT
#if SPLIT
  if (!gather(sum, p)) return;
#endif

  const int ow = t.q0 + column;
  if (ow >= p.out_w) return;
#pragma unroll
  for (int n = 0; n < CO / 32; ++n) {
    const int channel = n * 32 + q * 8;
    if (channel >= p.c_out) continue;
    const float4 bias[2] = {((const float4*)(p.bias + channel))[0], ((const float4*)(p.bias + channel))[1]};
#pragma unroll
    for (int u = 0; u < UNITS; ++u)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int oh = t.r0 + row + u + half * HALF;
        if (oh >= p.out_h) continue;
        float v[8];
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] = sum[u][n * 4 + c / 2][half * 2 + c % 2];
        store(v, bias, p, t.n * p.ys[0] + oh * p.ys[1] + ow * p.ys[2] + channel,
              t.n * p.rs[0] + oh * p.rs[1] + ow * p.rs[2] + channel);
      }
  }
#endif
}
