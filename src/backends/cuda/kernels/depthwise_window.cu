// Depthwise convolution with a large window in f16 on mma.sync (compute capability 8.0 and later), channels last, sums in
// f32. A block brings the pixels of 32 channels that its window covers to shared memory; a warp makes 8 columns x R rows
// of them. As in depthwise_mma.cu, a lane's 16 bytes of a pixel are operands as they are: two channels of them are two
// of eight columns of a product by a diagonal matrix, whose depth is one tap or two, below each other, of those eight
// channels. Macros: R (even) rows of a warp, X by Y warps along columns and rows, KH, KW, STRIDE, ACT. Weights:
// [tap][channel] in f16.
constexpr int THREADS = X * Y * 32, ROWS = (R - 1) * STRIDE + KH, TAPS = KH * KW, PIXEL = 64;  // bytes of a pixel
constexpr int IN_H = (Y * R - 1) * STRIDE + KH, IN_W = (X * 8 - 1) * STRIDE + KW;
static_assert(R % 2 == 0, "a product takes two rows");

struct Params {
  const narrow *x, *w;
  const float* bias;
  narrow* y;
  i64 xs[3], ys[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, groups, tiles_x, tiles_y, units;
  float alpha, beta;
};

__device__ __forceinline__ void copy_16(u32 to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ u32 word_of(const uint4& v, int j) {
  return j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w;
}
// Two taps of two rows, and one.
__device__ __forceinline__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NARROW_NAME "." NARROW_NAME
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." NARROW_NAME "." NARROW_NAME
               ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b0));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_window(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(16) u8 memory[];
  u8* const weights = memory + IN_H * IN_W * PIXEL;
  const int lane = threadIdx.x & 31, q = lane & 3, g = lane >> 2, warp = threadIdx.x >> 5;
  int tile = blockIdx.x;
  const int c0 = tile % p.groups * 32;
  tile /= p.groups;
  const int left = tile % p.tiles_x * (X * 8);
  tile /= p.tiles_x;
  const int top = tile % p.tiles_y * (Y * R), n = tile / p.tiles_y;
  // Weights come from no kernel before this one.
  for (int i = threadIdx.x; i < TAPS * 4; i += THREADS) {
    const int c = c0 + i % 4 * 8;
    const bool there = c < p.channels;
    copy_16((u32)__cvta_generic_to_shared(weights + i * 16), there ? p.w + i / 4 * p.channels + c : p.w, there);
  }
  const int c = c0 + q * 8;
  const bool alive = c < p.channels;
  float bias[8] = {};
  if (alive) *(float4*)&bias[0] = *(const float4*)(p.bias + c), *(float4*)&bias[4] = *(const float4*)(p.bias + c + 4);
  wait_for_previous(trail);

  const narrow* image = p.x + n * p.xs[0] + c0;
  const int first_row = top * STRIDE - p.pad_top, first_column = left * STRIDE - p.pad_left;
  for (int i = threadIdx.x; i < IN_H * IN_W * 4; i += THREADS) {
    const int row = first_row + i / 4 / IN_W, column = first_column + i / 4 % IN_W, chunk = i % 4 * 8;
    const bool there = (u32)row < (u32)p.in_h && (u32)column < (u32)p.in_w && c0 + chunk < p.channels;
    copy_16((u32)__cvta_generic_to_shared(memory + i * 16),
            there ? image + row * p.xs[1] + column * p.xs[2] + chunk : p.x, there);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  // Lane (g, q) holds element (2q.., g) of the diagonal matrices: one channel where q == g / 2.
  const u32 mask = q != g >> 1 ? 0 : g & 1 ? 0xffff0000u : 0xffffu;
  const int own_column = warp % X * 8 + g, own_row = warp / X * R;
  float sum[R / 2][4][4];
#pragma unroll
  for (int t = 0; t < R / 2; ++t)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[t][j][e] = bias[2 * j + (e & 1)];
  const u8* const own = memory + (own_row * STRIDE * IN_W + own_column * STRIDE) * PIXEL + q * 16;
  const auto weight_of = [&](int kr, int ks) {
    const uint4 w = *(const uint4*)(weights + (kr * KW + ks) * PIXEL + q * 16);
    return make_uint4(w.x & mask, w.y & mask, w.z & mask, w.w & mask);
  };
#pragma unroll
  for (int ks = 0; ks < KW; ++ks) {
    uint4 in[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) in[r] = *(const uint4*)(own + (r * IN_W + ks) * PIXEL);
#pragma unroll
    for (int kr = 0; kr < KH; kr += 2) {
      const bool two = kr + 1 < KH;
      const uint4 w0 = weight_of(kr, ks), w1 = weight_of(two ? kr + 1 : kr, ks);
#pragma unroll
      for (int t = 0; t < R / 2; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int upper = 2 * t * STRIDE + kr, lower = upper + STRIDE;
          if (two)
            multiply(sum[t][j], word_of(in[upper], j), word_of(in[lower], j), word_of(in[upper + 1], j),
                     word_of(in[lower + 1], j), word_of(w0, j), word_of(w1, j));
          else multiply(sum[t][j], word_of(in[upper], j), word_of(in[lower], j), word_of(w0, j));
        }
    }
  }

  const int column = left + own_column;
  if (!alive || column >= p.out_w) return;
#pragma unroll
  for (int t = 0; t < R / 2; ++t)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = top + own_row + 2 * t + h;
      if (row >= p.out_h) continue;
      u32 out[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        out[j] = pack_halves(activate<ACT, true>(sum[t][j][2 * h], p.alpha, p.beta),
                             activate<ACT, true>(sum[t][j][2 * h + 1], p.alpha, p.beta));
      *(uint4*)(p.y + n * p.ys[0] + row * p.ys[1] + column * p.ys[2] + c) = make_uint4(out[0], out[1], out[2], out[3]);
    }
}
