// SPDX-License-Identifier: Apache-2.0
// The largest of many keys, in falling order. A key is unique, not 0 and not ~0: the order of a number above its place,
// turned so that of equal numbers the first is larger. Put before a kernel's own text. Macros: THREADS of a block,
// RANKED keys (a power of two) at a time.
constexpr u32 ALL_LANES = 0xffffffffu;

// An unsigned number of the same order; -0 is 0, and what is no number comes above all.
__device__ __forceinline__ u32 order_of(float x) {
  if (x != x) return 0xffffffffu;
  const u32 bits = x == 0.f ? 0u : __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ u64 key_of(u32 order, int place) { return (u64)order << 32 | (0xfffffffeu - place); }
__device__ __forceinline__ int place_of(u64 key) { return 0xfffffffeu - (u32)key; }

struct Ranking {
  u64 keys[RANKED];
  int bins[256], count, digit, before;
};

// The least of the `most` largest keys that `counts` admits, of which there are more: digit by digit from the top.
template <class Key> __device__ __forceinline__ u64 least_of(Key key, int n, int most, Ranking& ranking) {
  const int lane = threadIdx.x & 31;
  u64 prefix = 0, mask = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < 256; bin += THREADS) ranking.bins[bin] = 0;
    __syncthreads();
    for (int base = 0; base < n; base += THREADS) {
      const int i = base + threadIdx.x;
      const u64 one = i < n ? key(i) : 0;
      const int digit = one && (one & mask) == prefix ? (int)(one >> shift & 255) : 256;
      const u32 same = __match_any_sync(ALL_LANES, digit);
      if (digit < 256 && lane == __ffs(same) - 1) atomicAdd(&ranking.bins[digit], __popc(same));
    }
    __syncthreads();
    if (threadIdx.x < 32) {  // a lane has eight bins, the largest digits first
      int own = 0;
      for (int j = 0; j < 8; ++j) own += ranking.bins[255 - lane * 8 - j];
      int upto = own;
      for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(ALL_LANES, upto, d);
        if (lane >= d) upto += other;
      }
      int before = upto - own;
      if (before < most && most <= upto) {
        int digit = 255 - lane * 8;
        while (before + ranking.bins[digit] < most) before += ranking.bins[digit--];
        ranking.digit = digit, ranking.before = before;
      }
    }
    __syncthreads();
    prefix |= (u64)ranking.digit << shift, mask |= (u64)255 << shift, most -= ranking.before;
    const bool all = ranking.bins[ranking.digit] == most;
    __syncthreads();
    if (all) break;
  }
  return prefix;
}

// Puts the `most` <= RANKED largest keys below `below` into ranking.keys, or as many as there are, and returns how
// many. All threads of the block call it, and read the keys when it returns.
template <class Key>
__device__ __forceinline__ int rank_next(Key key_at, int n, u64 below, int most, Ranking& ranking) {
  const auto key = [&](int i) {
    const u64 one = key_at(i);
    return one < below ? one : 0;
  };
  __syncthreads();
  if (threadIdx.x == 0) ranking.count = 0;
  __syncthreads();
  int own = 0;
  for (int i = threadIdx.x; i < n; i += THREADS) own += key(i) != 0;
  if (own) atomicAdd(&ranking.count, own);
  __syncthreads();
  const int total = ranking.count, wanted = min(total, most);
  if (wanted == 0) return 0;
  const u64 least = total > most ? least_of(key, n, most, ranking) : 1;
  __syncthreads();
  if (threadIdx.x == 0) ranking.count = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += THREADS)
    if (const u64 one = key(i); one >= least) ranking.keys[atomicAdd(&ranking.count, 1)] = one;
  int size = 1;
  while (size < wanted) size *= 2;
  for (int i = wanted + threadIdx.x; i < size; i += THREADS) ranking.keys[i] = 0;
  __syncthreads();
  for (int width = 2; width <= size; width *= 2)
    for (int step = width / 2; step > 0; step /= 2) {
      for (int i = threadIdx.x; i < size / 2; i += THREADS) {
        const int a = 2 * i - (i & (step - 1)), b = a + step;
        const u64 x = ranking.keys[a], y = ranking.keys[b];
        if ((x < y) == ((a & width) == 0)) ranking.keys[a] = y, ranking.keys[b] = x;
      }
      __syncthreads();
    }
  return wanted;
}
