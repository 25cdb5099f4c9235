// SPDX-License-Identifier: Apache-2.0
// The k first numbers of a line in falling (LARGEST 1) or rising order, with their places: a block a line. Behind
// rank.cuh. Macros: TX, LARGEST. Lines are `size` numbers at stride `inner`.
#include "pitch_params.h"
using tenon::cuda::Pitch;
#include "topk_params.h"
typedef tenon::cuda::TopkParams Params;

extern "C" __global__ void __launch_bounds__(THREADS)
    topk(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ Ranking ranking;
  wait_for_previous(breadcrumb);
  const i64 outer = blockIdx.x / p.inner, line = blockIdx.x % p.inner;
  const TX* x = p.x + outer * p.size * p.inner + line;
  TX* values = p.values + outer * p.of_values.outer + line * p.of_values.inner;
  i64* places = p.places + outer * p.of_places.outer + line * p.of_places.inner;
  const auto key = [&](int i) {
    const u32 order = order_of(f32_of(x[i * p.inner]));
    return key_of(LARGEST ? order : ~order, i);
  };
  u64 below = ~0ull;
  for (int done = 0; done < p.k;) {
    const int count = rank_next(key, p.size, below, min(p.k - done, RANKED), ranking);
    for (int i = threadIdx.x; i < count; i += THREADS) {
      const int place = place_of(ranking.keys[i]);
      values[(done + i) * p.of_values.step] = x[place * p.inner];
      if (p.places) places[(done + i) * p.of_places.step] = place;
    }
    below = ranking.keys[count - 1], done += count;
  }
}
