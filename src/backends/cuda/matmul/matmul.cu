// SPDX-License-Identifier: Apache-2.0
// A product of two matrices of any strides for each of a batch. Macros: ELEMENT (half or float) of the operands,
// RESULT of what is added and stored;
// A_K, B_N 1: rows of A run along depth, rows of B along columns, in chunks of 16 bytes; else element by element, and
// A_FAST 0: along depth, 1: along rows is where A's neighbours lie; B_FAST 0: along columns, 1: along depth.
// A block makes BM (64 or 32) x 64 results; PRODUCTS 1: on mma.sync (compute capability 8.0 and later), of f32 with
// tf32.cuh before this text. ACT, RESIDUAL; a bias is by column or, with BY_ROW 1, by row.
typedef ELEMENT T;
typedef RESULT To;
constexpr bool FLOAT16 = sizeof(T) == 2;
constexpr int BN = 64, BK = FLOAT16 ? 32 : 16, CHUNK = 16 / sizeof(T);
constexpr int THREADS = PRODUCTS || FLOAT16 || BM == 32 ? 128 : 256;
// Rows in shared memory end in a gap, so that neighbours lie in other banks.
constexpr int A_PITCH = BK + CHUNK, B_PITCH = BN + (PRODUCTS ? 8 : CHUNK), WN = BM == 64 ? 32 : 16;

#include "matmul_params.h"
typedef tenon::cuda::MatmulParams Params;

template <int N>
struct __align__(N * sizeof(T)) Piece {
  T e[N];
};

#if PRODUCTS
constexpr int NJ = WN / 8;
// Adds the products of a step in shared memory to a warp's results, 32 rows from wm and WN columns from wn.
#if FLOAT16_ELEMENT
__device__ __forceinline__ void multiply_part(float (&sum)[2][NJ][4], const T*, u32 base_a, u32 base_b, int wm,
                                              int wn) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int kk = 0; kk < BK; kk += 16) {
    u32 x[2][4], y[NJ / 2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                   : "r"(base_a + ((wm + i * 16 + (lane & 15)) * A_PITCH + kk + (lane >> 4) * 8) * 2)
                   : "memory");
#pragma unroll
    for (int j = 0; j < NJ / 2; ++j)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(y[j][0]), "=r"(y[j][1]), "=r"(y[j][2]), "=r"(y[j][3])
                   : "r"(base_b + ((kk + (lane & 15)) * B_PITCH + wn + j * 16 + (lane >> 4) * 8) * 2)
                   : "memory");
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                     : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j / 2][j % 2 * 2]),
                       "r"(y[j / 2][j % 2 * 2 + 1]));
  }
}
#else
__device__ __forceinline__ void multiply_part(float (&sum)[2][NJ][4], const T* part_b, u32 base_a, u32, int wm,
                                              int wn) {
  const int lane = threadIdx.x & 31;
  // Tensor cores cut what a sum cannot hold: only the products of one step are added there.
  float part[2][NJ][4] = {};
#pragma unroll
  for (int kk = 0; kk < BK; kk += 8) {
    Four x, y[NJ / 2];
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        y[j / 2].whole[j % 2 * 2 + e] =
            __float_as_uint(part_b[(kk + (lane & 3) + 4 * e) * B_PITCH + wn + j * 8 + (lane >> 2)]);
#pragma unroll
    for (int j = 0; j < NJ / 2; ++j) y[j].divide();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.whole[0]), "=r"(x.whole[1]), "=r"(x.whole[2]), "=r"(x.whole[3])
                   : "r"(base_a + ((wm + i * 16 + (lane & 15)) * A_PITCH + kk + (lane >> 4) * 4) * 4)
                   : "memory");
      x.divide();
      multiply_all<NJ>(part[i], x, y);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] += part[i][j][e];
}
#endif
#endif

extern "C" __global__ void __launch_bounds__(THREADS, (PRODUCTS || FLOAT16 ? 384 : 512) / THREADS)
    matmul(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ __align__(16) T part_a[BM * A_PITCH];
  __shared__ __align__(16) T part_b[BK * B_PITCH];
  const int tid = threadIdx.x, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int i2 = blockIdx.z % p.batch[2], i1 = blockIdx.z / p.batch[2] % p.batch[1],
            i0 = blockIdx.z / p.batch[2] / p.batch[1];
  const T* a = p.a + i0 * p.a_batch[0] + i1 * p.a_batch[1] + i2 * p.a_batch[2];
  const T* b = p.b + i0 * p.b_batch[0] + i1 * p.b_batch[1] + i2 * p.b_batch[2];
  To* c = p.c + i0 * p.c_batch[0] + i1 * p.c_batch[1] + i2 * p.c_batch[2];
  const To* other = p.residual + i0 * p.r_batch[0] + i1 * p.r_batch[1] + i2 * p.r_batch[2];
  wait_for_previous(breadcrumb);

  const auto store = [&](int m, int n, float v) {
    if (m >= p.m || n >= p.n) return;
    if (p.bias) v += p.bias[BY_ROW ? m : n];
    if (RESIDUAL == 1) v += f32_of(other[m * p.rm + n * p.rn]);
    v = activate<ACT, sizeof(To) == 2>(v, p.alpha, p.beta);
    if (RESIDUAL == 2) v += f32_of(other[m * p.rm + n * p.rn]);
    c[m * p.cm + n * p.cn] = of_f32<To>(v);
  };

  // Pieces of A and B on their way to shared memory: those of the next step are under way while this one is computed.
  constexpr int A_EACH = A_K ? CHUNK : 1, B_EACH = B_N ? CHUNK : 1;
  constexpr int A_COUNT = BM * BK / A_EACH / THREADS, B_COUNT = BK * BN / B_EACH / THREADS;
  Piece<A_EACH> of_a[A_COUNT];
  Piece<B_EACH> of_b[B_COUNT];
  const auto place_a = [&](int at, int& row, int& k) {
    const int i = tid + at * THREADS;
    if (A_K) row = i / (BK / CHUNK), k = i % (BK / CHUNK) * CHUNK;
    else row = A_FAST ? i % BM : i / BK, k = A_FAST ? i / BM : i % BK;
  };
  const auto place_b = [&](int at, int& k, int& column) {
    const int i = tid + at * THREADS;
    if (B_N) k = i / (BN / CHUNK), column = i % (BN / CHUNK) * CHUNK;
    else k = B_FAST ? i % BK : i / BN, column = B_FAST ? i / BK : i % BN;
  };
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int at = 0; at < A_COUNT; ++at) {
      int row, k;
      place_a(at, row, k);
      of_a[at] = {};
      if (m0 + row < p.m && k0 + k < p.k)
        of_a[at] = *(const Piece<A_EACH>*)(a + (m0 + row) * p.am + (k0 + k) * (A_K ? 1 : p.ak));
    }
#pragma unroll
    for (int at = 0; at < B_COUNT; ++at) {
      int k, column;
      place_b(at, k, column);
      of_b[at] = {};
      if (k0 + k < p.k && n0 + column < p.n)
        of_b[at] = *(const Piece<B_EACH>*)(b + (k0 + k) * p.bk + (n0 + column) * (B_N ? 1 : p.bn));
    }
  };
  const auto put = [&]() {
#pragma unroll
    for (int at = 0; at < A_COUNT; ++at) {
      int row, k;
      place_a(at, row, k);
      *(Piece<A_EACH>*)(part_a + row * A_PITCH + k) = of_a[at];
    }
#pragma unroll
    for (int at = 0; at < B_COUNT; ++at) {
      int k, column;
      place_b(at, k, column);
      *(Piece<B_EACH>*)(part_b + k * B_PITCH + column) = of_b[at];
    }
  };
  fetch(0);

#if PRODUCTS
  const int lane = tid & 31, warp = tid >> 5, wm = warp % (BM / 32) * 32, wn = warp / (BM / 32) * WN;
  const u32 base_a = (u32)__cvta_generic_to_shared(part_a), base_b = (u32)__cvta_generic_to_shared(part_b);
  float sum[2][NJ][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    put();
    __syncthreads();
    if (k0 + BK < p.k) fetch(k0 + BK);
    multiply_part(sum, part_b, base_a, base_b, wm, wn);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        store(m0 + wm + i * 16 + (lane >> 2) + e / 2 * 8, n0 + wn + j * 8 + (lane & 3) * 2 + e % 2, sum[i][j][e]);
#else
  // A thread makes rows row + STEP * i and columns 4 * column + j.
  const int row = tid / 16, column = tid % 16;
  constexpr int ROWS = BM * BN / THREADS / 4, STEP = THREADS / 16;
  float sum[ROWS][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += BK) {
    put();
    __syncthreads();
    if (k0 + BK < p.k) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float y[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) y[j] = f32_of(part_b[k * B_PITCH + 4 * column + j]);
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        const float x = f32_of(part_a[(row + STEP * i) * A_PITCH + k]);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(x, y[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) store(m0 + row + STEP * i, n0 + 4 * column + j, sum[i][j]);
#endif
}
