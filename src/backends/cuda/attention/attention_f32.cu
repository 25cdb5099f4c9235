// SPDX-License-Identifier: Apache-2.0
// softmax(Q K^T scale + mask) V in f32 without tensor cores, of operands of f32 or of 16 bits, scores never stored: as
// each tile of keys comes, earlier sums are scaled to the new largest score (as in attention.cu). Macros: DK, DV
// columns of keys and of values; a block of 128 threads takes 8 ROWS queries, KEYS keys at a time; 16 threads share a
// row. CHUNKED 1: rows of Q, K, V come in chunks of 16 bytes; MASK 1: f32 is added to the scores; NAN_TO_ZERO 1: a row
// without any weight gives zeros; ACT: what becomes of the result, as a type of tenon::expr.
constexpr int DP = (DK + 3) / 4 * 4, EP = (DV + 15) / 16 * 16, D_PITCH = DP + 4, E_PITCH = EP + 4, P_PITCH = KEYS + 4;
constexpr int BM = 8 * ROWS, COLUMNS = KEYS / 16, RESULTS = EP / 16;
constexpr int Q_SIZE = BM * D_PITCH, K_SIZE = KEYS * D_PITCH, V_SIZE = KEYS * E_PITCH;

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_f32(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) unsigned char memory[];
  float* const part_q = (float*)memory;
  float* const part_p = part_q + Q_SIZE;        // weights of this tile
  float* const part_k = part_p + BM * P_PITCH;  // two stages
  float* const part_v = part_k + 2 * K_SIZE;    // two stages
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int m0 = blockIdx.x * BM, i1 = blockIdx.y % p.heads, i0 = blockIdx.y / p.heads;
  const auto begin = [&](const Side& side, int head) { return i0 * side.batch[0] + head * side.batch[1]; };
  const int kv_head = i1 / p.share;
  const T *q = p.q + begin(p.q_side, i1), *k = p.k + begin(p.k_side, kv_head), *v = p.v + begin(p.v_side, kv_head);
  const float infinity = __int_as_float(0x7f800000), unit = 1.4426950408889634f;
#if MASK
  const float* const mask = p.mask + i0 % p.masks * p.mask_side.batch[0] + i1 * p.mask_side.batch[1];
#endif
  wait_for_previous(breadcrumb);

  load<BM, DK, DP>(part_q, q, p.q_side, m0, p.m);
  const int tiles = (p.n + KEYS - 1) / KEYS;
  const auto fetch = [&](int tile) {
    load<KEYS, DK, DP>(part_k + (tile & 1) * K_SIZE, k, p.k_side, tile * KEYS, p.n);
    load<KEYS, DV, EP>(part_v + (tile & 1) * V_SIZE, v, p.v_side, tile * KEYS, p.n);
    commit();
  };
  fetch(0);

  float sum[ROWS][RESULTS] = {}, top[ROWS], total[ROWS] = {};
#pragma unroll
  for (int i = 0; i < ROWS; ++i) top[i] = -infinity;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) fetch(tile + 1), arrive<1>();
    else arrive<0>();
    __syncthreads();
    const float* keys = part_k + (tile & 1) * K_SIZE;
    const float* values = part_v + (tile & 1) * V_SIZE;
    float s[ROWS][COLUMNS] = {};
#pragma unroll 4
    for (int d = 0; d < DP; d += 4) {
      float4 a[ROWS], b[COLUMNS];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) a[i] = *(const float4*)(part_q + (ty + 8 * i) * D_PITCH + d);
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) b[j] = *(const float4*)(keys + (tx + 16 * j) * D_PITCH + d);
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
          s[i][j] = fmaf(a[i].x, b[j].x, s[i][j]), s[i][j] = fmaf(a[i].y, b[j].y, s[i][j]);
          s[i][j] = fmaf(a[i].z, b[j].z, s[i][j]), s[i][j] = fmaf(a[i].w, b[j].w, s[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int line = m0 + ty + 8 * i;
      float high = top[i];
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) {
        const int column = tile * KEYS + tx + 16 * j;
        s[i][j] *= p.scale;
#if MASK
        if (column < p.n && line < p.m) {
          const float other = mask[line * p.mask_side.row + column * p.mask_side.column];
          // The smallest numbers stay numbers.
          s[i][j] += other < -2e38f && other > -infinity ? -2e38f : other;
        }
#endif
        if (column >= p.n) s[i][j] = -infinity;
        high = fmaxf(high, s[i][j]);
      }
#pragma unroll
      for (int step = 8; step; step /= 2) high = fmaxf(high, __shfl_xor_sync(~0u, high, step));
      const float base = high == -infinity ? 0.f : high, factor = power((top[i] - base) * unit);
      top[i] = high;
      total[i] *= factor;
#pragma unroll
      for (int j = 0; j < RESULTS; ++j) sum[i][j] *= factor;
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) {
        const float weight = power((s[i][j] - base) * unit);
        total[i] += weight;
        part_p[(ty + 8 * i) * P_PITCH + tx + 16 * j] = weight;
      }
    }
    __syncwarp();
#pragma unroll 2
    for (int n = 0; n < KEYS; n += 4) {
      float4 a[ROWS];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) a[i] = *(const float4*)(part_p + (ty + 8 * i) * P_PITCH + n);
#pragma unroll
      for (int j = 0; j < RESULTS; ++j) {
        const float* b = values + n * E_PITCH + tx + 16 * j;
        const float b0 = b[0], b1 = b[E_PITCH], b2 = b[2 * E_PITCH], b3 = b[3 * E_PITCH];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          sum[i][j] = fmaf(a[i].x, b0, sum[i][j]), sum[i][j] = fmaf(a[i].y, b1, sum[i][j]);
          sum[i][j] = fmaf(a[i].z, b2, sum[i][j]), sum[i][j] = fmaf(a[i].w, b3, sum[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int step = 8; step; step /= 2) total[i] += __shfl_xor_sync(~0u, total[i], step);
    const int line = m0 + ty + 8 * i;
    if (line >= p.m) continue;
    const float factor = 1.f / total[i];
    T* y = p.y + begin(p.y_side, i1) + line * p.y_side.row;
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      const int column = tx + 16 * j;
      const float r = NAN_TO_ZERO && !(total[i] > 0.f) ? 0.f : sum[i][j] * factor;
      if (column < DV) y[column * p.y_side.column] = of_f32<T>(activate<ACT, false>(r, p.alpha, p.beta));
    }
  }
}
