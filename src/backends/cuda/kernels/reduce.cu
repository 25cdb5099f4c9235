// Reduction of a dense tensor seen as outer x length x inner, along length. TX, TY: types; OP 0 sum, 1 mean, 2 max,
// 3 min. INNER 1: a warp a row; else 32 * VEC neighbours of inner and 8 parts of length a block.
struct Params {
  const TX* x;
  TY* y;
  i64 outer, length, inner;
};
struct __align__(VEC * sizeof(TX)) Vec {
  TX e[VEC];
};
__device__ __forceinline__ float join(float a, float b) {
  if (OP < 2) return a + b;
  if (a != a) return a;
  return OP == 2 ? (b > a || b != b ? b : a) : (b < a || b != b ? b : a);
}
__device__ __forceinline__ float nothing() {
  return OP < 2 ? 0.f : OP == 2 ? -__int_as_float(0x7f800000) : __int_as_float(0x7f800000);
}

extern "C" __global__ void __launch_bounds__(256) reduce(const __grid_constant__ Params p) {
  wait_for_previous();
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#if INNER == 1
  float sum = nothing();
  const i64 row = (i64)blockIdx.x * 8 + warp;
  if (row >= p.outer) return;
  for (i64 k = lane; k < p.length; k += 32) sum = join(sum, f32_of(p.x[row * p.length + k]));
#pragma unroll
  for (int step = 16; step; step /= 2) sum = join(sum, __shfl_xor_sync(~0u, sum, step));
  if (lane == 0) p.y[row] = of_f32<TY>(OP == 1 ? sum / p.length : sum);
#else
  constexpr int WIDTH = 32 * VEC;
  __shared__ float parts[8][WIDTH];
  const i64 tiles = (p.inner + WIDTH - 1) / WIDTH, outer = blockIdx.x / tiles, first = blockIdx.x % tiles * WIDTH,
            i = first + lane * VEC;
  float sum[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) sum[e] = nothing();
  if (i < p.inner) {
    const TX* x = p.x + outer * p.length * p.inner + i;
#pragma unroll 4
    for (i64 k = warp; k < p.length; k += 8) {
      const Vec v = *(const Vec*)(x + k * p.inner);
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[e] = join(sum[e], f32_of(v.e[e]));
    }
  }
#pragma unroll
  for (int e = 0; e < VEC; ++e) parts[warp][lane * VEC + e] = sum[e];
  __syncthreads();
  if (threadIdx.x >= WIDTH || first + threadIdx.x >= p.inner) return;
  float all = parts[0][threadIdx.x];
#pragma unroll
  for (int k = 1; k < 8; ++k) all = join(all, parts[k][threadIdx.x]);
  p.y[outer * p.inner + first + threadIdx.x] = of_f32<TY>(OP == 1 ? all / p.length : all);
#endif
}
