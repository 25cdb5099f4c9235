// Rows of a dense tensor with mean 0 and variance 1, times a scale and plus a bias of f32. ELEMENT: type of input and
// output; LANES (a power of two up to 32, or 256) share a row, EACH elements each; CENTRED 0: neither the mean is taken off nor a bias added.
typedef ELEMENT T;
struct Params {
  const T* x;
  const float *scale, *bias;  // of a row; null where there is none
  T* y;
  i64 rows;
  int length;
  float epsilon;
};

// The sum over the lanes of a row.
__device__ __forceinline__ float total(float v) {
#pragma unroll
  for (int step = (LANES < 32 ? LANES : 32) / 2; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
#if LANES > 32
  static_assert(LANES == 256, "one row a block");
  __shared__ float parts[LANES / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
#pragma unroll
  for (int k = 0; k < LANES / 32; ++k) v += parts[k];
#endif
  return v;
}

extern "C" __global__ void __launch_bounds__(256) layer_norm(const __grid_constant__ Params p) {
  wait_for_previous();
  const int lane = threadIdx.x % LANES;
  const i64 row = (i64)blockIdx.x * (256 / LANES) + threadIdx.x / LANES;
  const bool alive = row < p.rows;
  const T* x = p.x + (alive ? row : 0) * p.length;
  T* y = p.y + (alive ? row : 0) * p.length;
  float v[EACH], mean = 0.f, sum = 0.f;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int k = lane + e * LANES;
    v[e] = k < p.length ? f32_of(x[k]) : 0.f;
    sum += v[e];
  }
  if (CENTRED) mean = total(sum) / p.length;
  sum = 0.f;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    if (lane + e * LANES >= p.length) continue;
    v[e] -= mean;
    sum = fmaf(v[e], v[e], sum);
  }
  const float factor = rsqrtf(total(sum) / p.length + p.epsilon);
  if (!alive) return;
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int k = lane + e * LANES;
    if (k >= p.length) continue;
    const float r = v[e] * factor * (p.scale ? p.scale[k] : 1.f);
    y[k] = of_f32<T>(CENTRED && p.bias ? r + p.bias[k] : r);
  }
}
