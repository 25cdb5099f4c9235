// SPDX-License-Identifier: Apache-2.0
// Products of attention in f32 on tensor cores; stands between attention.cuh with tf32.cuh and attention.cu.
constexpr int DP = (DK + 7) / 8 * 8, EP = (DV + 7) / 8 * 8, D_PITCH = DP + 4, E_PITCH = EP + 4;
// Tensor cores cut what a sum cannot hold: so many products are added there, the rest outside.
constexpr int DEPTH = DIVIDED ? 4 : DP / 8;

__device__ __forceinline__ void matrices(u32 (&r)[4], const T* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(from))
               : "memory");
}
__device__ __forceinline__ void store_pair(T* to, float low, float high) { *(float2*)to = make_float2(low, high); }

// 16 queries of a warp, which stay in shared memory.
struct Queries {
  const T* rows;
  __device__ __forceinline__ void load(const T* from) { rows = from; }
};

// Their products with KEYS keys.
__device__ __forceinline__ void score(float (&s)[KEYS / 8][4], const Queries& queries, const T* keys) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int first = 0; first < DP / 8; first += DEPTH) {
    float part[KEYS / 8][4] = {};
#pragma unroll
    for (int d = first; d < DP / 8 && d < first + DEPTH; ++d) {
      Four a, b[KEYS / 16];
      matrices(a.whole, queries.rows + (lane & 15) * D_PITCH + d * 8 + (lane >> 4) * 4);
      a.divide();
#pragma unroll
      for (int j = 0; j < KEYS / 16; ++j) {
        matrices(b[j].whole, keys + (j * 16 + (lane >> 4) * 8 + (lane & 7)) * D_PITCH + d * 8 + (lane >> 3 & 1) * 4);
        b[j].divide();
      }
      multiply_all<KEYS / 8>(part, a, b);
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[j][e] += part[j][e];
  }
}

// Adds KEYS values by their weights, which lie as sums of products: of eight keys a lane has two neighbouring ones, so
// those are what the product takes for its own and the fourth behind it.
__device__ __forceinline__ void add_values(float (&sum)[EP / 8][4], const float (&s)[KEYS / 8][4], const T* values) {
  const T* const own = values + (threadIdx.x & 3) * 2 * E_PITCH + (threadIdx.x >> 2 & 7);
  Four a[KEYS / 8];
#pragma unroll
  for (int i = 0; i < KEYS / 8; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) a[i].whole[e] = __float_as_uint(s[i][e / 2 + e % 2 * 2]);
    a[i].divide();
  }
#pragma unroll
  for (int first = 0; first < EP / 8; first += 2) {
    float part[2][4] = {};
#pragma unroll
    for (int i = 0; i < KEYS / 8; ++i) {
      Four b;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        b.whole[e] = first + e / 2 < EP / 8
                         ? __float_as_uint(own[(i * 8 + e % 2) * E_PITCH + (first + e / 2) * 8])
                         : 0;
      b.divide();
      multiply_all<2>(part, a[i], &b);
    }
#pragma unroll
    for (int j = 0; j < 2 && first + j < EP / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[first + j][e] += part[j][e];
  }
}
