// SPDX-License-Identifier: Apache-2.0
// Convolution of any strides, groups and dilations: implicit GEMM on the plain arithmetic units by 256 threads. Tile:
// 64 pixels x 64 channels of one group, 16 deep. UP_H, UP_W: how far apart the input's pixels lie, with zeros between
// them, in a transposed convolution.
#ifndef UP_H
#define UP_H 1
#define UP_W 1
#endif
__device__ __forceinline__ float add_product(float a, float b, float sum) { return fmaf(a, b, sum); }
__device__ __forceinline__ int add_product(int a, int b, int sum) { return a * b + sum; }

// A thread's 4 pixels x 4 channels. Pixels and weights are what `number` and `weigh` make of the elements, zero
// outside.
template <class Sum, class Four, class P, class Number, class Weigh>
__device__ __forceinline__ void direct_sums(const P& p, const Number& number, const Weigh& weigh, Sum (&sum)[4][4]) {
  __shared__ Sum a[16][64 + 4], b[16][64];
  const int tid = threadIdx.x, group = blockIdx.y / p.tiles, n0 = blockIdx.y % p.tiles * 64, m0 = blockIdx.x * 64;
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
  const auto* w = p.w + (i64)group * p.depth * p.c_out + n0;
  for (int k0 = 0; k0 < p.depth; k0 += 16) {
    const int k = k0 + k_in, c = k % p.c_in, tap = k / p.c_in;
    const int dh = tap / p.kernel_w * p.dilation_h, dw = tap % p.kernel_w * p.dilation_w;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = h0[i] + dh, v = w0[i] + dw;
      const bool inside = k < p.depth && h >= 0 && v >= 0 && h % UP_H == 0 && v % UP_W == 0 && h / UP_H < p.in_h &&
                          v / UP_W < p.in_w;
      a[k_in][row + 16 * i] =
          inside ? number(p.x[base[i] + h / UP_H * p.xs[1] + v / UP_W * p.xs[2] + c * p.xs[3]]) : 0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int kk = i * 4 + (tid >> 6), n = tid & 63;
      b[kk][n] = k0 + kk < p.depth && n0 + n < p.c_out ? weigh(w[(i64)(k0 + kk) * p.c_out + n]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      const Four av = *(const Four*)&a[kk][tid / 16 * 4], bv = *(const Four*)&b[kk][tid % 16 * 4];
      const Sum as[4] = {av.x, av.y, av.z, av.w}, bs[4] = {bv.x, bv.y, bv.z, bv.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = add_product(as[i], bs[j], sum[i][j]);
    }
    __syncthreads();
  }
}

// Calls `store` with i, j, the channel and the places of the residual and of the result, for each sum that is one.
template <class P, class Store> __device__ __forceinline__ void for_direct_sums(const P& p, const Store& store) {
  const int tid = threadIdx.x, group = blockIdx.y / p.tiles, n0 = blockIdx.y % p.tiles * 64, m0 = blockIdx.x * 64;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + tid / 16 * 4 + i, q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
    if (m >= p.pixels) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int local = n0 + tid % 16 * 4 + j, c = group * p.c_out + local;
      if (local >= p.c_out) continue;
      store(i, j, c, n * p.rs[0] + r * p.rs[1] + q * p.rs[2] + c * p.rs[3],
            n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c * p.ys[3]);
    }
  }
}
