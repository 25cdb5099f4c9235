// SPDX-License-Identifier: Apache-2.0
// f32 on tensor cores. DIVIDED 1: a number as two of tf32, 22 bits of mantissa, whose three products are added
// ("3xTF32" of CUTLASS); 0: rounded to tf32.
__device__ __forceinline__ u32 tf32_of(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
// Four numbers of an operand, and what tf32 leaves of them.
struct Four {
  u32 whole[4], rest[4];
  __device__ __forceinline__ void divide() {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x = __uint_as_float(whole[e]);
      whole[e] = tf32_of(x);
      if (DIVIDED) rest[e] = tf32_of(x - __uint_as_float(whole[e]));
    }
  }
};
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Adds the products of an operand with COUNT others, two in a Four: the smallest first, each in all sums before the
// next, which would wait for it.
template <int COUNT> __device__ __forceinline__ void multiply_all(float (*sum)[4], const Four& a, const Four* b) {
#pragma unroll
  for (int j = 0; DIVIDED && j < COUNT; ++j)
    multiply(sum[j], a.rest, b[j / 2].whole[j % 2 * 2], b[j / 2].whole[j % 2 * 2 + 1]);
#pragma unroll
  for (int j = 0; DIVIDED && j < COUNT; ++j)
    multiply(sum[j], a.whole, b[j / 2].rest[j % 2 * 2], b[j / 2].rest[j % 2 * 2 + 1]);
#pragma unroll
  for (int j = 0; j < COUNT; ++j)
    multiply(sum[j], a.whole, b[j / 2].whole[j % 2 * 2], b[j / 2].whole[j % 2 * 2 + 1]);
}
