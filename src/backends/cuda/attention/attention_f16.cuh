// SPDX-License-Identifier: Apache-2.0
// Products of attention in 16-bit floats; stands between attention.cuh and attention.cu.
constexpr int DP = (DK + 15) / 16 * 16, EP = (DV + 15) / 16 * 16, D_PITCH = DP + 8, E_PITCH = EP + 8;

__device__ __forceinline__ void matrices(u32 (&r)[4], const T* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(from))
               : "memory");
}
__device__ __forceinline__ void matrices_transposed(u32 (&r)[4], const T* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(from))
               : "memory");
}
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void store_pair(T* to, float low, float high) { *(u32*)to = pack_halves(low, high); }

// 16 queries of a warp, as operands.
struct Queries {
  u32 x[DP / 16][4];
  __device__ __forceinline__ void load(const T* from) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int d = 0; d < DP / 16; ++d) matrices(x[d], from + (lane & 15) * D_PITCH + d * 16 + (lane >> 4) * 8);
  }
};

// Their products with KEYS keys.
__device__ __forceinline__ void score(float (&s)[KEYS / 8][4], const Queries& queries, const T* keys) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int d = 0; d < DP / 16; ++d)
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j) {
      u32 b[4];
      matrices(b, keys + (j * 16 + (lane >> 4) * 8 + (lane & 7)) * D_PITCH + d * 16 + (lane >> 3 & 1) * 8);
      multiply(s[2 * j], queries.x[d], b[0], b[1]);
      multiply(s[2 * j + 1], queries.x[d], b[2], b[3]);
    }
}

// Adds KEYS values by their weights, which lie as sums of products.
__device__ __forceinline__ void add_values(float (&sum)[EP / 8][4], const float (&s)[KEYS / 8][4], const T* values) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int i = 0; i < KEYS / 16; ++i) {
    const u32 a[4] = {pack_halves(s[2 * i][0], s[2 * i][1]), pack_halves(s[2 * i][2], s[2 * i][3]),
                      pack_halves(s[2 * i + 1][0], s[2 * i + 1][1]), pack_halves(s[2 * i + 1][2], s[2 * i + 1][3])};
#pragma unroll
    for (int j = 0; j < EP / 16; ++j) {
      u32 b[4];
      matrices_transposed(b, values + (i * 16 + (lane & 15)) * E_PITCH + j * 16 + (lane >> 4) * 8);
      multiply(sum[2 * j], a, b[0], b[1]);
      multiply(sum[2 * j + 1], a, b[2], b[3]);
    }
  }
}
