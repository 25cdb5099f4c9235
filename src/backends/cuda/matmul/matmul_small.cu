// SPDX-License-Identifier: Apache-2.0
// Many products of small matrices of any strides, on plain units: a thread has COLUMNS columns of one product, whose
// values of B it keeps in registers, and all M rows. A block has PRODUCTS products one behind the other and GROUPS
// threads for each; the matrices A of all wait in shared memory. Macros: ELEMENT of the operands, RESULT of what is
// added and stored; M rows and K of depth; A_FAST 0: neighbours in A are loaded along depth, 1: along rows, 2: from
// product to product; ALONG_BATCH 1: neighbouring threads have neighbouring products, else columns. ACT, RESIDUAL; a
// bias is by column or, with BY_ROW 1, by row.
typedef ELEMENT T;
typedef RESULT To;
// Odd, so that neighbouring products lie in other banks.
constexpr int PITCH = M * K | 1, THREADS = PRODUCTS * GROUPS;

#include "matmul_params.h"
typedef tenon::cuda::MatmulParams Params;

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul_small(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ float part_a[PRODUCTS * PITCH];
  __shared__ i64 a_begins[PRODUCTS];
  const int tid = threadIdx.x, own = ALONG_BATCH ? tid % PRODUCTS : tid / GROUPS;
  const int count = p.batch[0] * p.batch[1] * p.batch[2], first = blockIdx.x * PRODUCTS, left = count - first;
  const int n0 = blockIdx.y * GROUPS * COLUMNS + (ALONG_BATCH ? tid / PRODUCTS : tid % GROUPS);
  const auto begin = [&](int product, const i64* strides) {
    const int i2 = product % p.batch[2], rest = product / p.batch[2];
    return rest / p.batch[1] * strides[0] + rest % p.batch[1] * strides[1] + i2 * strides[2];
  };
  for (int i = tid; i < PRODUCTS && i < left; i += THREADS) a_begins[i] = begin(first + i, p.a_batch);
  __syncthreads();
  wait_for_previous(breadcrumb);

  const bool active = own < left;
  float y[COLUMNS][K];
  const T* b = p.b + (active ? begin(first + own, p.b_batch) : 0);
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int n = n0 + j * GROUPS;
      y[j][k] = active && n < p.n ? f32_of(b[k * p.bk + n * p.bn]) : 0.f;
    }
  constexpr int EACH = (PRODUCTS * M * K + THREADS - 1) / THREADS;
#pragma unroll 8
  for (int at = 0; at < EACH; ++at) {
    const int i = at * THREADS + tid;
    const int product = A_FAST == 2 ? i % PRODUCTS : i / (M * K), rest = A_FAST == 2 ? i / PRODUCTS : i % (M * K);
    const int row = A_FAST == 1 ? rest % M : rest / K, k = A_FAST == 1 ? rest / M : rest % K;
    if (i < PRODUCTS * M * K && product < left)
      part_a[product * PITCH + row * K + k] = f32_of(p.a[a_begins[product] + row * p.am + k * p.ak]);
  }
  __syncthreads();
  if (!active) return;

  const float* x = part_a + own * PITCH;
  To* c = p.c + begin(first + own, p.c_batch);
  const To* other = p.residual + (RESIDUAL ? begin(first + own, p.r_batch) : 0);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    float sum[COLUMNS] = {};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) sum[j] = fmaf(x[m * K + k], y[j][k], sum[j]);
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
      const int n = n0 + j * GROUPS;
      if (n >= p.n) break;
      float v = sum[j];
      if (p.bias) v += p.bias[BY_ROW ? m : n];
      if (RESIDUAL == 1) v += f32_of(other[m * p.rm + n * p.rn]);
      v = activate<ACT, sizeof(To) == 2>(v, p.alpha, p.beta);
      if (RESIDUAL == 2) v += f32_of(other[m * p.rm + n * p.rn]);
      c[m * p.cm + n * p.cn] = of_f32<To>(v);
    }
  }
}
