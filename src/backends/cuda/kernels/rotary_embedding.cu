// SPDX-License-Identifier: Apache-2.0
// Rows of dense numbers, one for each of a batch, head and place in the sequence, of which the first 2 * half are
// turned in pairs. ELEMENT: type of input and output; CACHE: of sines and cosines, [cached][half]; POSITIONS: whether
// places have positions among those, the nearest for one outside; INTERLEAVED: neighbours are pairs.
typedef ELEMENT T;
struct Params {
  const T* x;
  const CACHE *cosines, *sines;
#if POSITIONS
  const i64* positions;
#endif
  T* y;
  i64 count, cached;
  i64 head_step, row_step, whole;  // whole: numbers of one of the batch
  int heads, sequence, half, units, size;  // units: of a row, a pair or a number that stays
};

extern "C" __global__ void __launch_bounds__(256)
rotary_embedding(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int unit = (int)(i % p.units);
  const i64 row = i / p.units, place = row / p.heads;
  const i64 begin = place / p.sequence * p.whole + row % p.heads * p.head_step + place % p.sequence * p.row_step;
  const T* x = p.x + begin;
  T* y = p.y + begin;
  if (unit >= p.half) {
    y[unit + p.half] = x[unit + p.half];
    return;
  }
#if POSITIONS
  i64 entry = p.positions[place];
  entry = entry < 0 ? 0 : entry >= p.cached ? p.cached - 1 : entry;
#else
  const i64 entry = place;
#endif
  const float c = f32_of(p.cosines[entry * p.half + unit]), s = f32_of(p.sines[entry * p.half + unit]);
  const int first = INTERLEAVED ? 2 * unit : unit, second = INTERLEAVED ? first + 1 : unit + p.half;
  const float a = f32_of(x[first]), b = f32_of(x[second]);
  y[first] = of_f32<T>(c * a - s * b);
  y[second] = of_f32<T>(s * a + c * b);
}
