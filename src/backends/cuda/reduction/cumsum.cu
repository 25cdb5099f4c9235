// SPDX-License-Identifier: Apache-2.0
// Sums of each line's numbers up to each place (EXCLUSIVE 1: before it; REVERSE 1: from the end on), in f32 or, of
// integers, in SUM. Macros: TX, SUM, LANES (1 or 32) of a line, which add up 32 numbers at a time. Lines are `size`
// numbers at stride `inner`.
#include "cumsum_params.h"
typedef tenon::cuda::CumSumParams Params;

template <class T> __device__ __forceinline__ SUM number(T x) {
  if constexpr (INTEGERS) return (SUM)x;
  else return f32_of(x);
}
template <class T> __device__ __forceinline__ T element(SUM x) {
  if constexpr (INTEGERS) return (T)x;
  else return of_f32<T>(x);
}

extern "C" __global__ void __launch_bounds__(256) cumsum(const Breadcrumb breadcrumb,
                                                         const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 line = ((i64)blockIdx.x * 256 + threadIdx.x) / LANES;
  if (line >= p.lines) return;
  const i64 begin = line / p.inner * p.size * p.inner + line % p.inner;
  SUM before = 0;
#if LANES == 1
  // Some are on their way while others are added: a store may be to what the next load reads.
  constexpr int EACH = 8;
  for (int base = 0; base < p.size; base += EACH) {
    SUM own[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = base + e;
      own[e] = i < p.size ? number(p.x[begin + (REVERSE ? p.size - 1 - i : i) * p.inner]) : (SUM)0;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = base + e;
      const SUM sum = before + own[e];
      if (i < p.size) p.y[begin + (REVERSE ? p.size - 1 - i : i) * p.inner] = element<TX>(EXCLUSIVE ? before : sum);
      before = sum;
    }
  }
#else
  const int lane = threadIdx.x % LANES;
  for (int base = 0; base < p.size; base += LANES) {
    const int i = base + lane;
    const i64 at = begin + (REVERSE ? p.size - 1 - i : i) * p.inner;
    const SUM own = i < p.size ? number(p.x[at]) : (SUM)0;
    SUM sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const SUM other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    if (i < p.size) p.y[at] = element<TX>(EXCLUSIVE ? before + (sum - own) : before + sum);
    before += __shfl_sync(~0u, sum, 31);
  }
#endif
}
