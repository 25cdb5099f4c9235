// SPDX-License-Identifier: Apache-2.0
// Rows of numbers, one for each of a batch, head and place in the sequence, of which the first 2 * half are turned in
// pairs. ELEMENT: type of input and output; CACHE: of sines and cosines, [cached][half], of which a position
// that is outside takes the nearest; INTERLEAVED: neighbours are pairs.
typedef ELEMENT T;
#include "rotary_embedding_params.h"
typedef tenon::cuda::RotaryParams Params;

__device__ __forceinline__ i64 begin_of(const tenon::cuda::RotaryRows& rows, i64 batch, i64 head, i64 place) {
  return batch * rows.batch + head * rows.head + place * rows.place;
}

extern "C" __global__ void __launch_bounds__(256)
    rotary_embedding(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int unit = (int)(i % p.units);
  const i64 row = i / p.units, place = row / p.heads;
  const i64 batch = place / p.sequence, head = row % p.heads, in_sequence = place % p.sequence;
  const T* x = p.x + begin_of(p.from, batch, head, in_sequence);
  T* y = p.y + begin_of(p.to, batch, head, in_sequence);
  if (unit >= p.half) {
    y[unit + p.half] = x[unit + p.half];
    return;
  }
  i64 entry = p.positions ? p.positions[place] : place;
  entry = entry < 0 ? 0 : entry >= p.cached ? p.cached - 1 : entry;
  const float c = f32_of(p.cosines[entry * p.half + unit]), s = f32_of(p.sines[entry * p.half + unit]);
  const int first = INTERLEAVED ? 2 * unit : unit, second = INTERLEAVED ? first + 1 : unit + p.half;
  const float a = f32_of(x[first]), b = f32_of(x[second]);
  y[first] = of_f32<T>(c * a - s * b);
  y[second] = of_f32<T>(s * a + c * b);
}
