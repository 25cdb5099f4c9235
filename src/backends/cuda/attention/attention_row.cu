// SPDX-License-Identifier: Apache-2.0
// softmax(Q K^T scale + mask) V for few queries, such as the one of a step of decoding: a block takes one and a part of
// the keys. LANES lanes share a key, each with a chunk of its row and one of its value; such groups take KEYS keys at a
// time and keep the largest score and the sums of their own, which are brought together in the end, those of all parts
// by the block that is the last to come. Macros: DK, DV columns of keys and of values; THREADS, LANES, KEYS; SPLIT 1:
// keys are in parts; MASK 1: f32 is added to the scores; NAN_TO_ZERO 1: a row without any weight gives zeros; ACT: what
// becomes of the result, as a type of tenon::expr.
constexpr int GROUPS = THREADS / LANES, WARPS = THREADS / 32;

struct __align__(16) Chunk {
  T e[CHUNK];
};
struct Sums {
  float high, total, sum[CHUNK];
};
__device__ __forceinline__ float share_of(float score, float high) {
  const float infinity = __int_as_float(0x7f800000), unit = 1.4426950408889634f;
  return power((score - (high == -infinity ? 0.f : high)) * unit);
}
// What another block wrote.
__device__ __forceinline__ float loaded(const float* from) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from));
  return x;
}
// Brings two sums to the larger of their scores.
__device__ __forceinline__ void add(Sums& one, const Sums& other) {
  const float high = fmaxf(one.high, other.high);
  const float own = share_of(one.high, high), others = share_of(other.high, high);
  one.high = high, one.total = one.total * own + other.total * others;
#pragma unroll
  for (int e = 0; e < CHUNK; ++e) one.sum[e] = one.sum[e] * own + other.sum[e] * others;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_row(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ float highs[WARPS], totals[WARPS], parts[WARPS][LANES * CHUNK];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  const int line = blockIdx.x, i1 = blockIdx.y % p.heads, i0 = blockIdx.y / p.heads;
  const auto begin = [&](const Side& side, int head) { return i0 * side.batch[0] + head * side.batch[1]; };
  const int kv_head = i1 / p.share;
  const T* const q = p.q + begin(p.q_side, i1) + line * p.q_side.row + lane * CHUNK;
  const T* const k = p.k + begin(p.k_side, kv_head) + lane * CHUNK;
  const T* const v = p.v + begin(p.v_side, kv_head) + lane * CHUNK;
  const float infinity = __int_as_float(0x7f800000);
  const bool has_key = lane * CHUNK < DK, has_value = lane * CHUNK < DV;
  wait_for_previous(breadcrumb);

  float query[CHUNK];
#pragma unroll
  for (int e = 0; e < CHUNK; ++e) query[e] = has_key ? f32_of(q[e]) : 0.f;
  Sums own = {-infinity};
  const int each = SPLIT ? (p.n + p.splits - 1) / p.splits : p.n, end = min(p.n, (int)(blockIdx.z + 1) * each);
  for (int first = blockIdx.z * each; first < end; first += GROUPS * KEYS) {
    Chunk keys[KEYS], values[KEYS];
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      const int n = first + i * GROUPS + group;
      keys[i] = values[i] = {};
      if (n < end && has_key) keys[i] = *(const Chunk*)(k + n * p.k_side.row);
      if (n < end && has_value) values[i] = *(const Chunk*)(v + n * p.v_side.row);
    }
    float score[KEYS], high = own.high;
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      score[i] = 0;
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) score[i] = fmaf(query[e], f32_of(keys[i].e[e]), score[i]);
#pragma unroll
      for (int step = LANES / 2; step; step /= 2) score[i] += __shfl_xor_sync(~0u, score[i], step);
      const int n = first + i * GROUPS + group;
      score[i] *= p.scale;
#if MASK
      if (n < end) {
        const float other = p.mask[i0 % p.masks * p.mask_side.batch[0] + i1 * p.mask_side.batch[1] +
                                   line * p.mask_side.row + n * p.mask_side.column];
        // The smallest numbers stay numbers.
        score[i] += other < -2e38f && other > -infinity ? -2e38f : other;
      }
#endif
      if (n >= end) score[i] = -infinity;
      high = fmaxf(high, score[i]);
    }
    const float factor = share_of(own.high, high);
    own.high = high, own.total *= factor;
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) own.sum[e] *= factor;
#pragma unroll
    for (int i = 0; i < KEYS; ++i) {
      const float share = share_of(score[i], high);
      own.total += share;
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) own.sum[e] = fmaf(share, f32_of(values[i].e[e]), own.sum[e]);
    }
  }
#pragma unroll
  for (int step = LANES; step < 32; step *= 2) {
    Sums other;
    other.high = __shfl_xor_sync(~0u, own.high, step), other.total = __shfl_xor_sync(~0u, own.total, step);
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) other.sum[e] = __shfl_xor_sync(~0u, own.sum[e], step);
    add(own, other);
  }
  if (threadIdx.x % 32 < LANES) {
    highs[warp] = own.high, totals[warp] = own.total;
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) parts[warp][lane * CHUNK + e] = own.sum[e];
  }
  __syncthreads();
  float high = highs[0];
#pragma unroll
  for (int w = 1; w < WARPS; ++w) high = fmaxf(high, highs[w]);
#if SPLIT
  const int row = blockIdx.y * p.m + line;
  float* const rows = p.partial + (i64)row * p.splits * (DV + 2);
  for (int column = threadIdx.x; column < DV; column += THREADS) {
    float* const own_row = rows + blockIdx.z * (DV + 2);
    float total = 0, sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float share = share_of(highs[w], high);
      total = fmaf(totals[w], share, total), sum = fmaf(parts[w][column], share, sum);
    }
    own_row[2 + column] = sum;
    if (column == 0) own_row[0] = high, own_row[1] = total;
  }
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(p.counters + row, 1) == p.splits - 1;
  __syncthreads();
  if (!last) return;
  if (threadIdx.x == 0) p.counters[row] = 0;
  __threadfence();
  for (int part = 0; part < p.splits; ++part) high = fmaxf(part ? high : -infinity, loaded(rows + part * (DV + 2)));
#endif
  for (int column = threadIdx.x; column < DV; column += THREADS) {
    float total = 0, sum = 0;
#if SPLIT
    for (int part = 0; part < p.splits; ++part) {
      const float* const from = rows + part * (DV + 2);
      const float share = share_of(loaded(from), high);
      total = fmaf(loaded(from + 1), share, total), sum = fmaf(loaded(from + 2 + column), share, sum);
    }
#else
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float share = share_of(highs[w], high);
      total = fmaf(totals[w], share, total), sum = fmaf(parts[w][column], share, sum);
    }
#endif
    const float r = NAN_TO_ZERO && !(total > 0.f) ? 0.f : sum / total;
    T* const y = p.y + begin(p.y_side, i1) + line * p.y_side.row + column * p.y_side.column;
    *y = of_f32<T>(activate<ACT, sizeof(T) == 2>(r, p.alpha, p.beta));
  }
}
