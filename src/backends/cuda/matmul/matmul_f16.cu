// SPDX-License-Identifier: Apache-2.0
// A product of two matrices of 16-bit floats for each of a batch, on mma.sync (compute capability 8.0 and later), fed by
// asynchronous copies. Macros: ELEMENT of the operands, RESULT of what is added and stored; ACT, RESIDUAL;
//   A_DEPTH 1: rows of A run along depth, else its columns run along rows; B_DEPTH 1: columns of B run along depth,
//      else its rows run along columns
//   A_COPY, B_COPY: 16, 8 or 4 bytes of a copy, whose multiples such lines are
//   BM x BN results a block, WM x WN a warp; SLICES warps share these, each with its part of a step's depth
//   STAGES of BK of depth; BY_ROW 1: the bias is of rows; PAIRS 1: neighbours in a row of the result lie side by side
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

// Lines of a matrix, of which `lines` and `length` are there; the rest is zeros.
template <int LINES, int LENGTH, int COPY>
__device__ __forceinline__ void copy_tile(u32 to, const T* from, i64 pitch, int line0, int lines, int first,
                                          int length) {
  constexpr int EACH = COPY / 2, PER_LINE = LENGTH / EACH;
#pragma unroll
  for (int i = threadIdx.x; i < LINES * PER_LINE; i += THREADS) {
    const int line = i / PER_LINE, at = i % PER_LINE * EACH;
    const bool there = line0 + line < lines && first + at < length;
    const T* source = there ? from + (line0 + line) * pitch + first + at : from;
    const u32 target = to + (line * (LENGTH + 8) + at) * 2;
    if constexpr (COPY == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(there ? 16 : 0)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(target), "l"(source), "r"(there ? COPY : 0),
                   "n"(COPY)
                   : "memory");
  }
}

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
    if (slice > 0) memory[(((slice - 1) * TILES + tile) * COUNT + at) * 32 + lane] = sum[at / 4 / NJ][at / 4 % NJ][at % 4];
  __syncthreads();
  if (slice > 0) return;
#pragma unroll
  for (int other = 0; other < SLICES - 1; ++other)
#pragma unroll
    for (int at = 0; at < COUNT; ++at)
      sum[at / 4 / NJ][at / 4 % NJ][at % 4] += memory[((other * TILES + tile) * COUNT + at) * 32 + lane];
}

struct Result {
  To* c;
  const To* other;
  const Params& p;
  __device__ __forceinline__ float finished(int m, int n, float v) const {
    if (p.bias) v += p.bias[BY_ROW ? m : n];
    if (RESIDUAL == 1) v += f32_of(other[m * p.rm + n * p.rn]);
    v = activate<ACT, sizeof(To) == 2>(v, p.alpha, p.beta);
    if (RESIDUAL == 2) v += f32_of(other[m * p.rm + n * p.rn]);
    return v;
  }
  __device__ __forceinline__ void store(int m, int n, float low, float high) const {
    if (m >= p.m || n >= p.n) return;
    low = finished(m, n, low);
    To* to = c + m * p.cm + n * p.cn;
    if constexpr (PAIRS) {
      high = finished(m, n + 1, high);
      if constexpr (sizeof(To) == 2) *(u32*)to = pack_halves(low, high);
      else *(float2*)to = {low, high};
    } else {
      *to = of_f32<To>(low);
      if (n + 1 < p.n) to[p.cn] = of_f32<To>(finished(m, n + 1, high));
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_f16(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int tile = warp / SLICES, slice = warp % SLICES, wm = tile % (BM / WM) * WM, wn = tile / (BM / WM) * WN;
  const int i2 = blockIdx.z % p.batch[2], i1 = blockIdx.z / p.batch[2] % p.batch[1],
            i0 = blockIdx.z / p.batch[2] / p.batch[1];
  const T* a = p.a + i0 * p.a_batch[0] + i1 * p.a_batch[1] + i2 * p.a_batch[2];
  const T* b = p.b + i0 * p.b_batch[0] + i1 * p.b_batch[1] + i2 * p.b_batch[2];
  const u32 shared = (u32)__cvta_generic_to_shared(memory);
  const int steps = (p.k + BK - 1) / BK;
  const auto load = [&](int step) {
    const u32 to = shared + step % STAGES * STAGE * 2;
    if constexpr (A_DEPTH) copy_tile<BM, BK, A_COPY>(to, a, p.am, m0, p.m, step * BK, p.k);
    else copy_tile<BK, BM, A_COPY>(to, a, p.ak, step * BK, p.k, m0, p.m);
    if constexpr (B_DEPTH) copy_tile<BN, BK, B_COPY>(to + A_SIZE * 2, b, p.bn, n0, p.n, step * BK, p.k);
    else copy_tile<BK, BN, B_COPY>(to + A_SIZE * 2, b, p.bk, step * BK, p.k, n0, p.n);
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
  const Result result{p.c + i0 * p.c_batch[0] + i1 * p.c_batch[1] + i2 * p.c_batch[2],
                      p.residual + i0 * p.r_batch[0] + i1 * p.r_batch[1] + i2 * p.r_batch[2], p};
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        result.store(m0 + wm + i * 16 + (lane >> 2) + half * 8, n0 + wn + j * 8 + (lane & 3) * 2, sum[i][j][half * 2],
                     sum[i][j][half * 2 + 1]);
}
