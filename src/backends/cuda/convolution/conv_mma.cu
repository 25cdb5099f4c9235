// SPDX-License-Identifier: Apache-2.0
// Convolution as implicit GEMM on mma.sync (compute capability 8.0 and later). Channels last, whole 16-byte chunks of
// channels. Macros:
//   DT 1 f16, 2 f32 rounded to tf32, 3 bytes (behind int8.cuh, the residual too), 4 f32 as sums of two tf32
//   numbers (tf32.cuh); TY type of the output, and of the residual; ACT, RESIDUAL; VECTOR 1: stores of 8 channels
//   COPY bytes a copy: 16, or less where channels are no whole chunks, 2: one by one; FILL 1: taps outside read as
//      p.fill
//   BM pixels x BN channels a block, WM x WN a warp; STAGES of 128 bytes of depth
//   POINT 1: one tap without padding; SPLIT 1: blocks share a tile along depth, the last one adds their sums in order
// Weights: [group][channel, padded to BN][depth, padded to 128 bytes], position n of 32 holding channel
// n % 8 / 2 * 8 + n / 8 * 2 + n % 2, so that a thread owns 8 neighbouring channels of a row.
#include "conv_mma_types.cuh"

constexpr int ROW = 128, THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int E = DT == 3 ? 16 : DT == 1 ? 8 : 4;  // elements of a chunk
constexpr int A_BYTES = BM * ROW, STAGE = (BM + BN) * ROW;
constexpr int A_LOADS = BM * 8 / THREADS, B_LOADS = BN * 8 / THREADS, LANES = THREADS / 8;
constexpr int MI = WM / 16, NJ = WN / 8;
static_assert(WN % 32 == 0 && BM * 8 % THREADS == 0 && BN * 8 % THREADS == 0, "tile");
struct __align__(16) FourSums {
  Sum e[4];
};
typedef Sum Sums[MI][NJ][4];

#include "conv_mma_params.h"
typedef tenon::cuda::ConvMmaParams Params;

__device__ __forceinline__ void copy16(u32 to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Of `left` elements that are there, the others being zeros. Halves at no multiple of COPY bytes go one by one.
__device__ __forceinline__ void copy_some(u32 to, const X* from, int left) {
#if DT == 1
  if (COPY == 2 || ((u64)from & (COPY - 1))) {
    u32 words[4] = {};
#pragma unroll
    for (int e = 0; e < E; ++e)
      if (e < left) words[e / 2] |= (u32)from[e].bits << 16 * (e % 2);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
    return;
  }
#endif
#pragma unroll
  for (int at = 0; at < 16; at += COPY < 4 ? 4 : COPY) {
    const int bytes = at / (int)sizeof(X) < left ? COPY : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to + at),
                 "l"((const u8*)from + (bytes ? at : 0)), "r"(bytes), "n"(COPY < 4 ? 4 : COPY)
                 : "memory");
  }
}
__device__ __forceinline__ void load4(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}

// Adds the products of a warp's rows and columns of a step: the smallest first, each in all sums before the next, which
// would wait for it.
__device__ __forceinline__ void multiply_step(Sums& sum, u32 base, int a_row, int a_chunk, int b_row, int b_chunk) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    Four a[MI], b[NJ / 2];
#pragma unroll
    for (int i = 0; i < MI; ++i) {
      load4(a[i].whole, base + (a_row + 16 * i) * ROW + (((2 * k + a_chunk) ^ (a_row & 7)) << 4));
      if (DT == 2) a[i].divide();
    }
#pragma unroll
    for (int j = 0; j < NJ / 2; ++j)
      load4(b[j].whole, base + A_BYTES + (b_row + 16 * j) * ROW + (((2 * k + b_chunk) ^ (b_row & 7)) << 4));
    if (DIVIDED) {
#pragma unroll
      for (int i = 0; i < MI; ++i) a[i].divide();
#pragma unroll
      for (int j = 0; j < NJ / 2; ++j) b[j].divide();
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j)
          multiply(sum[i][j], a[i].rest, b[j / 2].whole[j % 2 * 2], b[j / 2].whole[j % 2 * 2 + 1]);
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j)
          multiply(sum[i][j], a[i].whole, b[j / 2].rest[j % 2 * 2], b[j / 2].rest[j % 2 * 2 + 1]);
    }
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j)
        multiply(sum[i][j], a[i].whole, b[j / 2].whole[j % 2 * 2], b[j / 2].whole[j % 2 * 2 + 1]);
  }
}

// Calls `with` each four sums of a thread and their number.
template <class With>
__device__ __forceinline__ void for_sums(Sums& sum, const With& with) {
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NJ; ++j) with(sum[i][j], i * NJ + j);
}

// SPLIT: sums of a tile's parts, in their order, by the block that is the last to come; false for the others.
__device__ __forceinline__ bool add_parts(Sums& sum, const Params& p) {
  __shared__ bool last;
  const int tid = threadIdx.x;
  Sum* tile = p.partial + ((i64)blockIdx.x * p.splits) * BM * BN;
  FourSums* own = (FourSums*)(tile + (i64)blockIdx.y * BM * BN);
  for_sums(sum, [&](Sum(&four)[4], int at) { own[at * THREADS + tid] = *(FourSums*)four; });
  __threadfence();
  __syncthreads();
  if (tid == 0) last = atomicAdd(p.counters + blockIdx.x, 1) == p.splits - 1;
  __syncthreads();
  if (!last) return false;
  if (tid == 0) p.counters[blockIdx.x] = 0;
  __threadfence();
  for_sums(sum, [](Sum(&four)[4], int) {
#pragma unroll
    for (int e = 0; e < 4; ++e) four[e] = 0;
  });
  for (int k = 0; k < p.splits; ++k) {
    const FourSums* from = (const FourSums*)(tile + (i64)k * BM * BN);
    for_sums(sum, [&](Sum(&four)[4], int at) {
      FourSums v;
      u32* bits = (u32*)v.e;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                   : "l"(from + at * THREADS + tid));
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] += v.e[e];
    });
  }
  return true;
}

// Of a warp, whose results begin at pixel m0 and channel n0 of its group.
__device__ __forceinline__ void finish(const Sums& sum, const Params& p, int group, int m0, int n0) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int g = 0; g < NJ / 4; ++g) {
    const int local = n0 + g * 32 + (lane & 3) * 8;  // first channel of the group's own
    if (local >= p.c_out) continue;
    const int channel = group * p.c_out + local, left = p.c_out - local;
    const Channels channels(p.lists, channel, left);
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int half_row = 0; half_row < 2; ++half_row) {
        const int m = m0 + 16 * i + 8 * half_row + (lane >> 2);
        if (m >= p.pixels) continue;
        const int q = m % p.out_w, line = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
        TY* out = p.y + n * p.ys[0] + line * p.ys[1] + q * p.ys[2] + channel;
        const Other* other = p.residual + n * p.rs[0] + line * p.rs[1] + q * p.rs[2] + channel;
        float v[8];
        Added residual[8] = {};
        if (RESIDUAL) load_residual(residual, other, left, channel, p.lists, p.finish);
#pragma unroll
        for (int e = 0; e < 8; ++e)
          v[e] = result_of(sum[i][g * 4 + e / 2][half_row * 2 + e % 2], channels, e, residual[e], p.finish);
        store(out, v, left, channel, p.lists, p.finish);
      }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_mma(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 shared = (u32)__cvta_generic_to_shared(memory);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int columns = p.tiles_n * p.groups, column = blockIdx.x % columns, group = column / p.tiles_n;
  const int n0 = column % p.tiles_n * BN, m0 = blockIdx.x / columns * BM;
  const int begin = SPLIT ? blockIdx.y * p.steps / p.splits : 0;
  const int end = SPLIT ? (blockIdx.y + 1) * p.steps / p.splits : p.steps;

  // A thread copies chunk `chunk` of rows row + LANES * i.
  const int chunk = tid & 7, row = tid >> 3;
  const X* rows[A_LOADS];
  int h0[A_LOADS], w0[A_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i) {
    const int m = m0 + row + LANES * i, q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
    h0[i] = m < p.pixels ? r * p.stride_h - p.pad_top : -(1 << 28);
    w0[i] = q * p.stride_w - p.pad_left;
    rows[i] = p.x + n * p.xs[0] + group * p.c_real;
    if (POINT) rows[i] += h0[i] * p.xs[1] + w0[i] * p.xs[2];
  }
  int at = begin * 8 + chunk, c, r = 0, s = 0;
  if (POINT) {
    c = at * E;
  } else {
    const int per_tap = p.c_in / E, tap = at / per_tap;
    c = at % per_tap * E, r = tap / p.kernel_w, s = tap % p.kernel_w;
  }
  const u8* weights =
      (const u8*)p.w + ((i64)(column / p.tiles_n * p.tiles_n * BN + n0 + row) * p.steps + begin) * ROW + chunk * 16;
  const i64 weight_rows = (i64)LANES * p.steps * ROW;
  const u32 to = row * ROW + ((chunk ^ (row & 7)) << 4);

  const auto load_weights = [&](int step, int slot) {
#pragma unroll
    for (int i = 0; i < B_LOADS; ++i)
      copy16(shared + slot * STAGE + A_BYTES + to + i * LANES * ROW,
             weights + i * weight_rows + (i64)(step - begin) * ROW, true);
  };
  const auto load_pixels = [&](int slot) {
#pragma unroll
    for (int i = 0; i < A_LOADS; ++i) {
      const int h = h0[i] + r * p.dilation_h, w = w0[i] + s * p.dilation_w;
      const bool valid = at < p.chunks && (POINT ? h0[i] >= 0 : (u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w);
      const X* from = POINT ? rows[i] + c : rows[i] + h * p.xs[1] + w * p.xs[2] + c;
      const u32 place = shared + slot * STAGE + to + i * LANES * ROW;
      if (FILL && !valid) asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(place), "r"(p.fill) : "memory");
      else if (COPY == 16) copy16(place, valid ? from : p.x, valid);
      else copy_some(place, valid ? from : p.x, valid ? p.c_real - c : 0);
    }
    at += 8, c += 8 * E;
    if (!POINT)
      while (c >= p.c_in) {
        c -= p.c_in;
        if (++s == p.kernel_w) s = 0, ++r;
      }
  };

  // Weights come from no kernel before this one.
#pragma unroll
  for (int k = 0; k < STAGES - 1; ++k)
    if (begin + k < end) load_weights(begin + k, k);
  wait_for_previous(breadcrumb);
#pragma unroll
  for (int k = 0; k < STAGES - 1; ++k) {
    if (begin + k < end) load_pixels(k);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
  const int a_row = wm + (lane & 15), a_chunk = lane >> 4;
  const int b_row = wn + (lane & 7) + (lane >> 4 << 3), b_chunk = lane >> 3 & 1;
  Sums sum = {};
  for (int step = begin; step < end; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    const int slot = (step - begin) % STAGES, next = step + STAGES - 1;
    if (next < end) {
      load_weights(next, (next - begin) % STAGES);
      load_pixels((next - begin) % STAGES);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const u32 base = shared + slot * STAGE;
    if constexpr (DIVIDED) {
      // Tensor cores cut what a sum cannot hold: only the products of one step are added there.
      Sums part = {};
      multiply_step(part, base, a_row, a_chunk, b_row, b_chunk);
      for_sums(sum, [&](Sum(&four)[4], int at) {
#pragma unroll
        for (int e = 0; e < 4; ++e) four[e] += part[at / NJ][at % NJ][e];
      });
    } else {
      multiply_step(sum, base, a_row, a_chunk, b_row, b_chunk);
    }
  }
  if constexpr (SPLIT)
    if (!add_parts(sum, p)) return;
  finish(sum, p, group, m0 + wm, n0 + wn);
}
