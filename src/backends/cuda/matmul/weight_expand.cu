// SPDX-License-Identifier: Apache-2.0
// Weights of 4 or 8 bits in blocks as rows of 16-bit floats for a kernel behind: a block of THREADS makes one row, a
// thread EACH times eight neighbours at once. Macros: ELEMENT; SCALE its type in the model; BITS; BLOCK weights of a
// scale, a multiple of 8; ZEROS 1: there are zero points, else half of the range.
#include "weight_expand_params.h"
typedef tenon::cuda::WeightExpandParams Params;

struct __align__(BITS) Integers {
  u8 e[BITS];
};
struct __align__(16) Eight {
  ELEMENT e[8];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    weight_expand(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int channel = p.channels[blockIdx.x];
  wait_for_previous(breadcrumb);
  Eight* const to = (Eight*)(p.to + (i64)blockIdx.x * p.depth);
  const int eights = p.depth / 8;
  for (int first = threadIdx.x; first < eights; first += THREADS * EACH) {
    Integers from[EACH];
    float scale[EACH];
    int zero[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = first + i * THREADS;
      from[i] = {}, scale[i] = 0.f, zero[i] = 1 << (BITS - 1);
      if (channel >= p.n || at * 8 >= p.k) continue;
      const i64 block = (i64)channel * p.blocks + at * 8 / BLOCK;
      from[i] = *(const Integers*)(p.weights + (i64)channel * p.row_bytes + at * BITS);
      scale[i] = f32_of(p.scales[block]);
      if (ZEROS) zero[i] = p.zeros[block];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = first + i * THREADS;
      if (at >= eights) break;
      Eight out;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int integer = BITS == 8 ? from[i].e[e % BITS] : from[i].e[e / 2 % BITS] >> e % 2 * 4 & 15;
        out.e[e] = of_f32<ELEMENT>((integer - zero[i]) * scale[i]);
      }
      to[at] = out;
    }
  }
}
