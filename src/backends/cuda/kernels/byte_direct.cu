// Convolution of bytes of any strides, groups and dilations: implicit GEMM on the plain arithmetic units, in i32, or
// e4m3 in f32. Behind bytes.cuh. TX: u8 or e4m3, or float that becomes u8 first; TY: type of the result, u8 for all
// bytes. LIVE 1: the input's scale and zero point are known when it runs, and the lists' scales are those of weights.
// Tile: 64 pixels x 64 channels of one group, 16 deep.
#if FP8
typedef float4 Four;
#else
typedef int4 Four;
#endif

struct Params {
  const TX* x;
  const Weight* w;  // [group][depth][channels_out]
  Lists lists;
  const u8* residual;
  TY* y;
  const float* live_scale;
  const u8* live_zero;  // null: 0
  i64 xs[4], ys[4], rs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, depth, tiles;  // tiles of channels in a group
  int x_zero;
  float x_scale;
  Finish finish;
};

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

extern "C" __global__ void __launch_bounds__(256) byte_direct(const Trail trail, const __grid_constant__ Params p) {
  __shared__ Sum a[16][64 + 4], b[16][64];
  const int tid = threadIdx.x, group = blockIdx.y / p.tiles, n0 = blockIdx.y % p.tiles * 64, m0 = blockIdx.x * 64;
  wait_for_previous(trail);
  const int zero = LIVE && p.live_zero ? *p.live_zero : p.x_zero;
  const float live_scale = LIVE ? *p.live_scale : 1.f;
  const int k_in = tid & 15, row = tid >> 4;
  i64 base[4];
  int h0[4], w0[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + row + 16 * i, q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
    h0[i] = m < p.pixels ? r * p.stride_h - p.pad_top : -(1 << 29);
    w0[i] = q * p.stride_w - p.pad_left;
    base[i] = n * p.xs[0] + (i64)group * p.c_in * p.xs[3];
  }
  const Weight* w = p.w + (i64)group * p.depth * p.c_out + n0;
  Sum sum[4][4] = {};
  for (int k0 = 0; k0 < p.depth; k0 += 16) {
    const int k = k0 + k_in, c = k % p.c_in, tap = k / p.c_in;
    const int dh = tap / p.kernel_w * p.dilation_h, dw = tap % p.kernel_w * p.dilation_w;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = h0[i] + dh, v = w0[i] + dw;
      const bool inside = k < p.depth && (u32)h < (u32)p.in_h && (u32)v < (u32)p.in_w;
      a[k_in][row + 16 * i] = inside ? number_of(p.x[base[i] + h * p.xs[1] + v * p.xs[2] + c * p.xs[3]], p, zero) : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int kk = i * 4 + (tid >> 6), n = tid & 63;
      b[kk][n] = k0 + kk < p.depth && n0 + n < p.c_out ? weight_of(w[(i64)(k0 + kk) * p.c_out + n]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      const Four av = *(const Four*)&a[kk][tid / 16 * 4], bv = *(const Four*)&b[kk][tid % 16 * 4];
      const Sum as[4] = {av.x, av.y, av.z, av.w}, bs[4] = {bv.x, bv.y, bv.z, bv.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += as[i] * bs[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + tid / 16 * 4 + i, q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
    if (m >= p.pixels) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int local = n0 + tid % 16 * 4 + j, c = group * p.c_out + local;
      if (local >= p.c_out) continue;
      const i64 at = n * p.rs[0] + r * p.rs[1] + q * p.rs[2] + c * p.rs[3];
      const float other =
          RESIDUAL ? residual_of(p.residual[at], 0, r_scale_of(p.lists.r_scales, c, p.finish), p.finish) : 0.f;
      const float scale = LIVE ? __fmul_rn(live_scale, p.lists.scale[c]) : p.lists.scale[c];
      const float v = real_of<sizeof(TY) < 4, sizeof(TY) == 1>(sum[i][j], scale, p.lists.bias[c], other, p.finish);
      p.y[n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c * p.ys[3]] = result_of<TY>(v, c, p);
    }
  }
}
