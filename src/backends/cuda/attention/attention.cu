// SPDX-License-Identifier: Apache-2.0
// softmax(Q K^T scale + mask) V on mma.sync (compute capability 8.0 and later), sums in f32, scores never stored: as
// each tile of keys comes, earlier sums are scaled to the new largest score (Milakov and Gimelshein 2018; Dao et al.
// 2022). Macros: DK, DV columns of keys and of values; a block takes 16 ROWS queries; PARTS groups of ROWS warps share
// the keys, KEYS of each tile apiece. CHUNKED 1: rows of Q, K, V come in chunks of 16 bytes; PAIRS 1: results are
// stored by twos; MASK 1: f32 is added to the scores; NAN_TO_ZERO 1: a row without any weight gives zeros; ACT:
// what becomes of the result, as a type of tenon::expr.
constexpr int TILE = KEYS * PARTS;
constexpr int Q_SIZE = 16 * ROWS * D_PITCH, K_SIZE = TILE * D_PITCH, V_SIZE = TILE * E_PITCH;
constexpr int STAGES_BYTES = 2 * (int)sizeof(T) * (K_SIZE + V_SIZE), SHARED_PARTS = 16 * EP + 32;
static_assert(ROWS * (PARTS - 1) * SHARED_PARTS * 4 <= STAGES_BYTES,
              "sums of the parts fit where keys and values were");

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) unsigned char memory[];
  T* const part_q = (T*)memory;
  T* const part_k = part_q + Q_SIZE;      // two stages
  T* const part_v = part_k + 2 * K_SIZE;  // two stages
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = warp % ROWS, part = warp / ROWS;
  const int m0 = blockIdx.x * 16 * ROWS, i1 = blockIdx.y % p.heads, i0 = blockIdx.y / p.heads, kv_head = i1 / p.share;
  const auto begin = [&](const Side& side, int head) { return i0 * side.batch[0] + head * side.batch[1]; };
  const T *q = p.q + begin(p.q_side, i1), *k = p.k + begin(p.k_side, kv_head), *v = p.v + begin(p.v_side, kv_head);
  // Scores are kept as they come, without the scale where there is no mask; powers are of 2.
  const float infinity = __int_as_float(0x7f800000), unit = (MASK ? 1.f : p.scale) * 1.4426950408889634f;
  wait_for_previous(breadcrumb);

  load<16 * ROWS, DK, DP>(part_q, q, p.q_side, m0, p.m);
  const int tiles = (p.n + TILE - 1) / TILE;
  const auto fetch = [&](int tile) {
    load<TILE, DK, DP>(part_k + (tile & 1) * K_SIZE, k, p.k_side, tile * TILE, p.n);
    load<TILE, DV, EP>(part_v + (tile & 1) * V_SIZE, v, p.v_side, tile * TILE, p.n);
    commit();
  };
  fetch(0);

  Queries queries;
  float sum[EP / 8][4] = {}, top[2] = {-infinity, -infinity}, total[2] = {};
  const int row = m0 + group * 16 + (lane >> 2);
#if MASK
  const float* const mask = p.mask + i0 % p.masks * p.mask_side.batch[0] + i1 * p.mask_side.batch[1];
  const float* const lines[2] = {mask + min(row, p.m - 1) * p.mask_side.row,
                                 mask + min(row + 8, p.m - 1) * p.mask_side.row};
#endif
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) fetch(tile + 1);
    const int key = tile * TILE + part * KEYS + (lane & 3) * 2;
#if MASK
    // All at once, while keys are on their way; those beyond the last stand in for none.
    float more[KEYS / 8][4];
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        more[j][e] = lines[e / 2][min(key + j * 8 + (e & 1), p.n - 1) * p.mask_side.column];
#endif
    if (tile + 1 < tiles) arrive<1>();
    else arrive<0>();
    __syncthreads();
    if (tile == 0) queries.load(part_q + group * 16 * D_PITCH);
    const T* keys = part_k + (tile & 1) * K_SIZE + part * KEYS * D_PITCH;
    const T* values = part_v + (tile & 1) * V_SIZE + part * KEYS * E_PITCH;
    float s[KEYS / 8][4] = {};
    score(s, queries, keys);
#if MASK
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        // The smallest numbers stay numbers.
        s[j][e] = fmaf(s[j][e], p.scale, more[j][e] < -2e38f && more[j][e] > -infinity ? -2e38f : more[j][e]);
#endif
    if ((tile + 1) * TILE > p.n) {
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (key + j * 8 + (e & 1) >= p.n) s[j][e] = -infinity;
    }
    float high[2] = {-infinity, -infinity};
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) high[e / 2] = fmaxf(high[e / 2], s[j][e]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 1));
      high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 2));
      high[h] = fmaxf(high[h], top[h]);
      const float base = high[h] == -infinity ? 0.f : high[h] * unit, factor = power(fmaf(top[h], unit, -base));
      top[h] = high[h];
      total[h] *= factor;
#pragma unroll
      for (int j = 0; j < EP / 8; ++j) sum[j][2 * h] *= factor, sum[j][2 * h + 1] *= factor;
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) total[h] += s[j][e] = power(fmaf(s[j][e], unit, -base));
    }
    add_values(sum, s, values);
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    total[h] += __shfl_xor_sync(~0u, total[h], 1);
    total[h] += __shfl_xor_sync(~0u, total[h], 2);
  }

#if PARTS > 1
  // The first part adds up what the others have, each scaled to the largest score of all.
  float* const shared = (float*)part_k;
  if (part > 0) {
    float* to = shared + ((part - 1) * ROWS + group) * SHARED_PARTS;
#pragma unroll
    for (int j = 0; j < EP / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) to[(j * 4 + e) * 32 + lane] = sum[j][e];
    if ((lane & 3) == 0)
      for (int h = 0; h < 2; ++h) {
        to[16 * EP + (lane >> 2) + 8 * h] = top[h];
        to[16 * EP + 16 + (lane >> 2) + 8 * h] = total[h];
      }
  }
  __syncthreads();
  if (part > 0) return;
#pragma unroll 1
  for (int other = 0; other < PARTS - 1; ++other) {
    const float* from = shared + (other * ROWS + group) * SHARED_PARTS;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float its = from[16 * EP + (lane >> 2) + 8 * h], high = fmaxf(top[h], its);
      const float base = high == -infinity ? 0.f : high * unit;
      const float mine = power(fmaf(top[h], unit, -base)), factor = power(fmaf(its, unit, -base));
      top[h] = high;
      total[h] = total[h] * mine + from[16 * EP + 16 + (lane >> 2) + 8 * h] * factor;
#pragma unroll
      for (int j = 0; j < EP / 8; ++j)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) sum[j][e] = sum[j][e] * mine + from[(j * 4 + e) * 32 + lane] * factor;
    }
  }
#endif

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= p.m) continue;
    const float factor = 1.f / total[h];
    T* y = p.y + begin(p.y_side, i1) + (row + 8 * h) * p.y_side.row;
#pragma unroll
    for (int j = 0; j < EP / 8; ++j) {
      const int column = j * 8 + (lane & 3) * 2;
      float r[2] = {sum[j][2 * h] * factor, sum[j][2 * h + 1] * factor};
      if (NAN_TO_ZERO && !(total[h] > 0.f)) r[0] = r[1] = 0.f;
      for (float& x : r) x = activate<ACT, sizeof(T) == 2>(x, p.alpha, p.beta);
#if PAIRS
      if (column < DV) store_pair(y + column, r[0], r[1]);
#else
      for (int e = 0; e < 2; ++e)
        if (column + e < DV) y[(column + e) * p.y_side.column] = of_f32<T>(r[e]);
#endif
    }
  }
}
