// SPDX-License-Identifier: Apache-2.0
// Convolution of bytes by direct.cuh, in i32, or of e4m3 in f32. Behind int8.cuh. TX: u8 or e4m3, or float that becomes
// u8 first; TY: type of the result, u8 for all bytes. DYNAMIC 1: the input's scale and zero point are known when it
// runs, and the lists' scales are those of weights.
#if FP8
typedef float4 Four;
#else
typedef int4 Four;
#endif

#include "int8_direct_params.h"
typedef tenon::cuda::Int8DirectParams Params;

__device__ __forceinline__ int number_of(u8 x, const Params&, int zero) { return x - zero; }
#if FP8
__device__ __forceinline__ float number_of(e4m3 x, const Params&, int) { return f32_of(x); }
__device__ __forceinline__ float weight_of(e4m3 w) { return f32_of(w); }
__device__ __forceinline__ u8 byte_of(float steps) { return of_f32<e4m3>(steps).bits; }
#else
__device__ __forceinline__ int weight_of(i8 w) { return w; }
__device__ __forceinline__ u8 byte_of(int steps) { return (u8)min(max(steps, 0), 255); }
#endif
__device__ __forceinline__ int number_of(float x, const Params& p, int) {
  const int q = __float2int_rn(fminf(fmaxf(__fdiv_rn(x, p.x_scale), -1e6f), 1e6f)) + p.x_zero;
  return (x != x ? p.x_zero : min(max(q, 0), 255)) - p.x_zero;
}
template <class T> __device__ __forceinline__ T result_of(float v, int, const Params&) { return of_f32<T>(v); }
template <> __device__ __forceinline__ u8 result_of<u8>(float v, int channel, const Params& p) {
  return byte_of(steps_of(v, inverse_of(p.lists.inverses, channel, p.finish), p.finish));
}

extern "C" __global__ void __launch_bounds__(256)
    int8_direct(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int zero = DYNAMIC && p.dynamic_zero ? *p.dynamic_zero : p.x_zero;
  const float dynamic_scale = DYNAMIC ? *p.dynamic_scale : 1.f;
  Sum sum[4][4] = {};
  direct_sums<Sum, Four>(p, [&](TX x) { return number_of(x, p, zero); }, [](Weight w) { return weight_of(w); }, sum);
  for_direct_sums(p, [&](int i, int j, int c, i64 at, i64 to) {
    const Added other =
        RESIDUAL ? residual_of(p.residual[at], 0, r_scale_of(p.lists.r_scales, c, p.finish), p.finish) : Added{};
    const float scale = DYNAMIC ? __fmul_rn(dynamic_scale, p.lists.scale[c]) : p.lists.scale[c];
    const float v = real_of<sizeof(TY) < 4, sizeof(TY) == 1>(sum[i][j], scale, p.lists.bias[c], other, p.finish);
    p.y[to] = result_of<TY>(v, c, p);
  });
}
