// Convolution of any strides, types, groups and dilations: implicit GEMM on the plain arithmetic units, in f32.
// TX, TY: types of input and output (and residual); ACT, RESIDUAL. Tile: 64 pixels x 64 channels of one group, 16 deep.
struct Params {
  const TX* x;
  const float *w, *bias;  // w: [group][depth][channels_out]
  const TY* residual;
  TY* y;
  i64 xs[4], ys[4], rs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, depth, tiles;  // tiles of channels in a group
  float alpha, beta;
};

extern "C" __global__ void __launch_bounds__(256) conv_direct(const Trail trail, const __grid_constant__ Params p) {
  __shared__ float a[16][64 + 4], b[16][64];
  const int tid = threadIdx.x, group = blockIdx.y / p.tiles, n0 = blockIdx.y % p.tiles * 64, m0 = blockIdx.x * 64;
  wait_for_previous(trail);
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
  const float* w = p.w + (i64)group * p.depth * p.c_out + n0;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < p.depth; k0 += 16) {
    const int k = k0 + k_in, c = k % p.c_in, tap = k / p.c_in;
    const int dh = tap / p.kernel_w * p.dilation_h, dw = tap % p.kernel_w * p.dilation_w;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = h0[i] + dh, v = w0[i] + dw;
      const bool inside = k < p.depth && (u32)h < (u32)p.in_h && (u32)v < (u32)p.in_w;
      a[k_in][row + 16 * i] = inside ? f32_of(p.x[base[i] + h * p.xs[1] + v * p.xs[2] + c * p.xs[3]]) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int kk = i * 4 + (tid >> 6), n = tid & 63;
      b[kk][n] = k0 + kk < p.depth && n0 + n < p.c_out ? w[(i64)(k0 + kk) * p.c_out + n] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      const float4 av = *(const float4*)&a[kk][tid / 16 * 4], bv = *(const float4*)&b[kk][tid % 16 * 4];
      const float as[4] = {av.x, av.y, av.z, av.w}, bs[4] = {bv.x, bv.y, bv.z, bv.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(as[i], bs[j], sum[i][j]);
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
      float v = sum[i][j] + p.bias[c];
      const i64 at = n * p.rs[0] + r * p.rs[1] + q * p.rs[2] + c * p.rs[3];
      if (RESIDUAL == 1) v += f32_of(p.residual[at]);
      v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
      if (RESIDUAL == 2) v += f32_of(p.residual[at]);
      p.y[n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c * p.ys[3]] = of_f32<TY>(v);
    }
  }
}
