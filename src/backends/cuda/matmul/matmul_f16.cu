// SPDX-License-Identifier: Apache-2.0
// A product of two matrices of 16-bit floats for each of a batch, on mma.sync (compute capability 8.0 and later), fed
// by asynchronous copies. Macros: ELEMENT of the operands, RESULT of what is added and stored; ACT, RESIDUAL;
//   A_DEPTH 1: rows of A run along depth, else its columns run along rows; B_DEPTH 1: columns of B run along depth,
//      else its rows run along columns
//   A_COPY, B_COPY: 16, 8 or 4 bytes of a copy, whose multiples such lines are
//   BM x BN results a block, WM x WN a warp; SLICES warps share these, each with its part of a step's depth
//   STAGES of BK of depth; BY_ROW 1: the bias is of rows; PAIRS, OTHER_PAIRS 1: neighbours in a row of the result,
//      of what is added to it, lie side by side
//   PARTED 1: blocks share the depth, and leave their sums for a second launch, which joins them and adds the rest
typedef ELEMENT T;
typedef RESULT To;
constexpr int THREADS = (BM / WM) * (BN / WN) * SLICES * 32, MI = WM / 16, NJ = WN / 8;
// Lines in shared memory end in a gap, so that neighbours lie in other banks.
constexpr int A_PITCH = (A_DEPTH ? BK : BM) + 8, B_PITCH = (B_DEPTH ? BK : BN) + 8;
constexpr int A_SIZE = (A_DEPTH ? BM : BK) * A_PITCH, B_SIZE = (B_DEPTH ? BN : BK) * B_PITCH, STAGE = A_SIZE + B_SIZE;
static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % (16 * SLICES) == 0, "tile");

#include "matmul_params.h"
typedef tenon::cuda::MatmulParams Params;
typedef float Sums[MI][NJ][4];

// A thread's part of the lines that a step copies: pieces at one place in every AT_ONCE-th line.
template <int LINES, int LENGTH, int COPY>
struct Copier {
  static constexpr int EACH = COPY / 2, PER_LINE = LENGTH / EACH, AT_ONCE = THREADS / PER_LINE;
  static constexpr int COUNT = (LINES + AT_ONCE - 1) / AT_ONCE;
  static_assert(THREADS % PER_LINE == 0, "whole lines");
  const int line = threadIdx.x / PER_LINE, place = threadIdx.x % PER_LINE * EACH;
  const T* from;
  i64 pitch;
  __device__ __forceinline__ Copier(const T* matrix, i64 pitch, int line0, int first)
      : from(matrix + (line0 + line) * pitch + first + place), pitch(pitch) {}
  // `lines` of the step's are there, `length` elements of each; the rest is zeros. The next step's begin `advance` on.
  __device__ __forceinline__ void copy(u32 to, int lines, int length, i64 advance) {
    const T* source = from;
    from += advance;
    to += (line * (LENGTH + 8) + place) * 2;
#pragma unroll
    for (int at = 0; at < COUNT; ++at) {
      const int own = line + at * AT_ONCE, bytes = own < lines && place < length ? COPY : 0;
      const u32 target = to + at * AT_ONCE * (LENGTH + 8) * 2;
      if (LINES % AT_ONCE && own >= LINES) return;
      if constexpr (COPY == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
      else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(target), "l"(source), "r"(bytes), "n"(COPY)
                     : "memory");
      source += AT_ONCE * pitch;
    }
  }
};

template <bool TRANSPOSED>
__device__ __forceinline__ void load4(u32 (&r)[4], u32 from) {
  if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

// Adds the products of a warp's part of a step, whose operands lie from a and b on.
__device__ __forceinline__ void multiply_step(Sums& sum, u32 a, u32 b, int wm, int wn, int slice) {
  const int lane = threadIdx.x & 31, low = lane & 15, high = lane >> 4, eighth = lane & 7, second = lane >> 3 & 1;
#pragma unroll
  for (int kk = 0; kk < BK / SLICES; kk += 16) {
    const int k = slice * (BK / SLICES) + kk;
    u32 x[MI][4], y[NJ / 2][4];
#pragma unroll
    for (int i = 0; i < MI; ++i)
      if constexpr (A_DEPTH) load4<false>(x[i], a + ((wm + i * 16 + low) * A_PITCH + k + high * 8) * 2);
      else load4<true>(x[i], a + ((k + high * 8 + eighth) * A_PITCH + wm + i * 16 + second * 8) * 2);
#pragma unroll
    for (int j = 0; j < NJ / 2; ++j)
      if constexpr (B_DEPTH) load4<false>(y[j], b + ((wn + j * 16 + high * 8 + eighth) * B_PITCH + k + second * 8) * 2);
      else load4<true>(y[j], b + ((k + low) * B_PITCH + wn + j * 16 + high * 8) * 2);
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                     : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j / 2][j % 2 * 2]),
                       "r"(y[j / 2][j % 2 * 2 + 1]));
  }
}

// Sums of all slices in those of the first, through shared memory that nothing else uses any more.
__device__ __forceinline__ void join_slices(Sums& sum, float* memory, int tile, int slice) {
  constexpr int TILES = (BM / WM) * (BN / WN), COUNT = MI * NJ * 4;
  const int lane = threadIdx.x & 31;
  __syncthreads();
#pragma unroll
  for (int at = 0; at < COUNT; ++at)
    if (slice > 0)
      memory[(((slice - 1) * TILES + tile) * COUNT + at) * 32 + lane] = sum[at / 4 / NJ][at / 4 % NJ][at % 4];
  __syncthreads();
  if (slice > 0) return;
#pragma unroll
  for (int other = 0; other < SLICES - 1; ++other)
#pragma unroll
    for (int at = 0; at < COUNT; ++at)
      sum[at / 4 / NJ][at / 4 % NJ][at % 4] += memory[((other * TILES + tile) * COUNT + at) * 32 + lane];
}

// Two neighbours in a row of the result, or of what is added to it; the second may not be there.
__device__ __forceinline__ void store_pair(To* to, i64 pitch, float low, float high, bool second) {
  if constexpr (!PAIRS) {
    *to = of_f32<To>(low);
    if (second) to[pitch] = of_f32<To>(high);
  } else if constexpr (sizeof(To) == 2) {
    *(u32*)to = pack_halves(low, high);
  } else {
    *(float2*)to = {low, high};
  }
}
__device__ __forceinline__ void load_pair(const To* from, i64 pitch, float& low, float& high, bool second) {
  if constexpr (!OTHER_PAIRS) {
    low = f32_of(*from), high = second ? f32_of(from[pitch]) : 0.f;
  } else if constexpr (sizeof(To) == 2) {
    const u32 pair = *(const u32*)from;
    low = half_of(pair, 0), high = half_of(pair, 1);
  } else {
    const float2 pair = *(const float2*)from;
    low = pair.x, high = pair.y;
  }
}

// Stores a warp's results, whose first is at m0 and n0.
__device__ __forceinline__ void finish(const Sums& sum, To* c, const To* other, int m0, int n0, const Params& p) {
  const int lane = threadIdx.x & 31, first = n0 + (lane & 3) * 2;
  float2 of_column[NJ] = {};
  if (p.bias && !BY_ROW)
#pragma unroll
    for (int j = 0; j < NJ; ++j) {
      const int n = first + j * 8;
      if (n < p.n) of_column[j].x = p.bias[n];
      if (n + 1 < p.n) of_column[j].y = p.bias[n + 1];
    }
#pragma unroll
  for (int i = 0; i < MI * 2; ++i) {
    const int m = m0 + (lane >> 2) + i * 8;
    if (m >= p.m) return;
    const float of_row = p.bias && BY_ROW ? p.bias[m] : 0.f;
    To* to = c + m * p.cm + first * p.cn;
    const To* its = RESIDUAL ? other + m * p.rm + first * p.rn : other;
#pragma unroll
    for (int j = 0; j < NJ; ++j) {
      const int n = first + j * 8;
      if (n >= p.n) break;
      const bool second = n + 1 < p.n;
      float low = sum[i / 2][j][i % 2 * 2] + of_column[j].x + of_row,
            high = sum[i / 2][j][i % 2 * 2 + 1] + of_column[j].y + of_row, x = 0.f, y = 0.f;
      if (RESIDUAL) load_pair(its + j * 8 * p.rn, p.rn, x, y, second);
      if (RESIDUAL == 1) low += x, high += y;
      low = activate<ACT, sizeof(To) == 2>(low, p.alpha, p.beta);
      high = activate<ACT, sizeof(To) == 2>(high, p.alpha, p.beta);
      if (RESIDUAL == 2) low += x, high += y;
      store_pair(to + j * 8 * p.cn, p.cn, low, high, second);
    }
  }
}

#if PARTED
// Leaves a warp's sums of one part of the depth.
__device__ __forceinline__ void leave(const Sums& sum, float* to, int m0, int n0, const Params& p) {
  const int lane = threadIdx.x & 31, first = n0 + (lane & 3) * 2;
#pragma unroll
  for (int i = 0; i < MI * 2; ++i) {
    const int m = m0 + (lane >> 2) + i * 8;
    if (m >= p.m) return;
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (first + j * 8 + e < p.n) to[(i64)m * p.n + first + j * 8 + e] = sum[i / 2][j][i % 2 * 2 + e];
  }
}

extern "C" __global__ void __launch_bounds__(256)
    join_parts(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 size = (i64)p.m * p.n, at = (i64)blockIdx.x * 256 + threadIdx.x;
  if (at >= size) return;
  const int m = at / p.n, n = at % p.n, i2 = blockIdx.y % p.batch[2], i1 = blockIdx.y / p.batch[2] % p.batch[1],
            i0 = blockIdx.y / p.batch[2] / p.batch[1];
  const float* from = p.sums + (i64)blockIdx.y * p.parts * size + at;
  float sum = 0.f;
#pragma unroll 8
  for (int part = 0; part < p.parts; ++part) sum += from[part * size];
  if (p.bias) sum += p.bias[BY_ROW ? m : n];
  float other = 0.f;
  if (RESIDUAL)
    other = f32_of(p.residual[i0 * p.r_batch[0] + i1 * p.r_batch[1] + i2 * p.r_batch[2] + m * p.rm + n * p.rn]);
  if (RESIDUAL == 1) sum += other;
  sum = activate<ACT, sizeof(To) == 2>(sum, p.alpha, p.beta);
  if (RESIDUAL == 2) sum += other;
  p.c[i0 * p.c_batch[0] + i1 * p.c_batch[1] + i2 * p.c_batch[2] + m * p.cm + n * p.cn] = of_f32<To>(sum);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_f16(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int tile = warp / SLICES, slice = warp % SLICES, wm = tile % (BM / WM) * WM, wn = tile / (BM / WM) * WN;
  const int item = PARTED ? blockIdx.z / p.parts : blockIdx.z, i2 = item % p.batch[2],
            i1 = item / p.batch[2] % p.batch[1], i0 = item / p.batch[2] / p.batch[1];
  const T* a = p.a + i0 * p.a_batch[0] + i1 * p.a_batch[1] + i2 * p.a_batch[2];
  const T* b = p.b + i0 * p.b_batch[0] + i1 * p.b_batch[1] + i2 * p.b_batch[2];
  const u32 shared = (u32)__cvta_generic_to_shared(memory);
  int steps = (p.k + BK - 1) / BK, first = 0;
  if (PARTED) {
    const int most = (steps + p.parts - 1) / p.parts;
    first = blockIdx.z % p.parts * most, steps = max(min(steps - first, most), 0);
  }
  Copier<A_DEPTH ? BM : BK, A_DEPTH ? BK : BM, A_COPY> of_a(a, A_DEPTH ? p.am : p.ak, A_DEPTH ? m0 : 0,
                                                            A_DEPTH ? 0 : m0);
  Copier<B_DEPTH ? BN : BK, B_DEPTH ? BK : BN, B_COPY> of_b(b, B_DEPTH ? p.bn : p.bk, B_DEPTH ? n0 : 0,
                                                            B_DEPTH ? 0 : n0);
  const i64 a_step = A_DEPTH ? BK : BK * p.ak, b_step = B_DEPTH ? BK : BK * p.bk;
  if (PARTED) of_a.from += first * a_step, of_b.from += first * b_step;
  const auto load = [&](int step) {
    const u32 to = shared + step % STAGES * STAGE * 2;
    const int rows = p.m - m0, columns = p.n - n0, depth = p.k - (first + step) * BK;
    of_a.copy(to, A_DEPTH ? rows : depth, A_DEPTH ? depth : rows, a_step);
    of_b.copy(to + A_SIZE * 2, B_DEPTH ? columns : depth, B_DEPTH ? depth : columns, b_step);
  };
  wait_for_previous(breadcrumb);
#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) {
    if (step < steps) load(step);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  Sums sum = {};
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    if (step + STAGES - 1 < steps) load(step + STAGES - 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    const u32 from = shared + step % STAGES * STAGE * 2;
    multiply_step(sum, from, from + A_SIZE * 2, wm, wn, slice);
  }
  if constexpr (SLICES > 1) {
    join_slices(sum, (float*)memory, tile, slice);
    if (slice > 0) return;
  }
#if PARTED
  leave(sum, p.sums + (i64)blockIdx.z * p.m * p.n, m0 + wm, n0 + wn, p);
#else
  finish(sum, p.c + i0 * p.c_batch[0] + i1 * p.c_batch[1] + i2 * p.c_batch[2],
         p.residual + i0 * p.r_batch[0] + i1 * p.r_batch[1] + i2 * p.r_batch[2], m0 + wm, n0 + wn, p);
#endif
}
