// A convolution of few channels in bytes on mma.sync (compute capability 8.0 and later): a block of THREADS keeps its
// part of the input in shared memory, pixels of CB (16 or 32) bytes, and makes TH x 32 results of WIDTH channels. Of 16
// bytes a product takes two taps: a pixel and the neighbour behind it. What lies outside of the input is its zero
// point. Behind quantise.cuh and bytes.cuh. Macros: STRIDE, TAPS_H, TAPS_W, TH, WIDTH, COUT, and
//   PICTURE 1: a pixel is BLOCK x BLOCK of a picture with any strides, quantised as it is read: channel
//      (row * BLOCK + column) * C + c; ELEMENT (float or u8), PAIRS (BLOCK 2: two neighbours are read at once)
//   PICTURE 0: pixels of CB bytes
// Weights: [step of 32 bytes][8 results][lane][2], position n of 8 t holding result n / 2 * (WIDTH / 4) + 2 t + n % 2.
constexpr int TW = 32, PH = (TH - 1) * STRIDE + TAPS_H, PW = (TW - 1) * STRIDE + TAPS_W, CHUNKS = CB / 16;
constexpr int STEPS_W = CB == 16 ? (TAPS_W + 1) / 2 : TAPS_W, STEPS = TAPS_H * STEPS_W;
constexpr int OWN = WIDTH / 4, NT = WIDTH / 8;
#if PICTURE
typedef ELEMENT X;
#else
typedef u8 X;
#endif

struct Params {
  const X* x;
  const uint2* w;
  const float *bias, *scale;
  const int* zero_sums;
  const u8* residual;
  u8* y;
  i64 xs[4], ys[3], rs[3];                             // strides: image, row, pixel, channel
  int in_h, in_w, blocks_h, blocks_w, out_h, out_w;    // blocks: pixels in shared memory
  int pad_top, pad_left, tiles_x, tiles_y, x_zero;
  float x_scale, x_inverse;
  Finish finish;
};

#if PICTURE
struct __align__(2 * sizeof(X)) Pair {
  X e[2];
};
#endif

extern "C" __global__ void __launch_bounds__(THREADS, (WIDTH == 64 ? 512 : 768) / THREADS) byte_window(const __grid_constant__ Params p) {
  __shared__ __align__(128) uint4 part[PH * PW * CHUNKS + 1];
  __shared__ __align__(128) uint2 weights[STEPS * NT * 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  const int x0 = blockIdx.x % p.tiles_x * TW, y0 = blockIdx.x / p.tiles_x % p.tiles_y * TH,
            n = blockIdx.x / p.tiles_x / p.tiles_y;
  // Weights come from no kernel before this one.
  for (int i = threadIdx.x; i < STEPS * NT * 32; i += THREADS) weights[i] = p.w[i];
  wait_for_previous();

  const X* image = p.x + n * p.xs[0];
  constexpr int COUNT = PH * PW * CHUNKS;
#if PICTURE
  // Two pixels at a time, so that all their loads are under way before the first is used.
  constexpr int NUMBERS = BLOCK * BLOCK * C;
#pragma unroll 1
  for (int first = threadIdx.x; first < COUNT; first += 2 * THREADS) {
    X f[2][NUMBERS];
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) {
      const int i = first + twin * THREADS, bh = y0 - p.pad_top + i / PW, bw = x0 - p.pad_left + i % PW;
      const bool inside = i < COUNT && (u32)bh < (u32)p.blocks_h && (u32)bw < (u32)p.blocks_w;
#pragma unroll
      for (int k = 0; k < NUMBERS; ++k) f[twin][k] = sizeof(X) == 1 ? (X)p.x_zero : (X)0;
#pragma unroll
      for (int r = 0; r < BLOCK; ++r)
#pragma unroll
        for (int c = 0; c < C; ++c) {
          const int h = bh * BLOCK + r;
          const X* from = image + h * p.xs[1] + c * p.xs[3];
#if PAIRS
          if (inside && h < p.in_h) {
            const Pair two = *(const Pair*)(from + bw * 2);
            f[twin][r * 2 * C + c] = two.e[0], f[twin][(r * 2 + 1) * C + c] = two.e[1];
          }
#else
#pragma unroll
          for (int k = 0; k < BLOCK; ++k) {
            const int w = bw * BLOCK + k;
            if (inside && h < p.in_h && w < p.in_w) f[twin][(r * BLOCK + k) * C + c] = from[w * p.xs[2]];
          }
#endif
        }
    }
#pragma unroll
    for (int twin = 0; twin < 2; ++twin) {
      const int i = first + twin * THREADS;
      if (i >= COUNT) break;
      int q[NUMBERS], v[16] = {};
      quantise(f[twin], q, p.x_scale, p.x_inverse, p.x_zero);
#pragma unroll
      for (int k = 0; k < NUMBERS; ++k) v[k] = q[k];
      part[i] = make_uint4(pack_bytes(v[0], v[1], v[2], v[3]), pack_bytes(v[4], v[5], v[6], v[7]),
                           pack_bytes(v[8], v[9], v[10], v[11]), pack_bytes(v[12], v[13], v[14], v[15]));
    }
  }
#else
  const u32 zero = p.x_zero * 0x01010101u;
#pragma unroll 4
  for (int i = threadIdx.x; i < COUNT; i += THREADS) {
    const int pixel = i / CHUNKS;
    const int h = y0 * STRIDE - p.pad_top + pixel / PW, w = x0 * STRIDE - p.pad_left + pixel % PW;
    uint4 v = make_uint4(zero, zero, zero, zero);
    if ((u32)h < (u32)p.blocks_h && (u32)w < (u32)p.blocks_w)
      v = *(const uint4*)(image + h * p.xs[1] + w * p.xs[2] + i % CHUNKS * 16);
    // Chunks change places, so that eight rows of one chunk lie in different banks.
    part[CHUNKS == 1 ? i : pixel * 2 + ((i & 1) ^ (pixel >> 2 & 1))] = v;
  }
#endif
  __syncthreads();

  const u32 base = (u32)__cvta_generic_to_shared(part);
#pragma unroll 1
  for (int row = warp; row < TH; row += THREADS / 32) {
    const int y = y0 + row;
    if (y >= p.out_h) continue;
    int sum[2][NT][4] = {};
#pragma unroll(WIDTH == 64 ? 2 : STEPS)
    for (int s = 0; s < STEPS; ++s) {
      u32 a[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        int at = (row * STRIDE + s / STEPS_W) * PW + (m * 16 + (lane & 15)) * STRIDE;
        if (CB == 16) {
          at += (lane >> 4) + s % STEPS_W * 2;
        } else {
          at += s % STEPS_W;
          at = at * 2 + ((lane >> 4) ^ (at >> 2 & 1));
        }
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3])
                     : "r"(base + at * 16)
                     : "memory");
      }
#pragma unroll
      for (int t = 0; t < NT; ++t) {
        const uint2 b = weights[(s * NT + t) * 32 + lane];
#pragma unroll
        for (int m = 0; m < 2; ++m)
          asm volatile(
              "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+r"(sum[m][t][0]), "+r"(sum[m][t][1]), "+r"(sum[m][t][2]), "+r"(sum[m][t][3])
              : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b.x), "r"(b.y));
      }
    }
    if (q * OWN >= COUT) continue;
    u32 other[2][2][OWN / 4] = {};
#if RESIDUAL
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = x0 + m * 16 + g + 8 * h;
        const u32* from = (const u32*)(p.residual + n * p.rs[0] + y * p.rs[1] + x * p.rs[2] + q * OWN);
        if (x < p.out_w)
#pragma unroll
          for (int k = 0; k < OWN / 4; ++k) other[m][h][k] = from[k];
      }
#endif
#pragma unroll
    for (int four = 0; four < OWN / 4; ++four) {
      const int channel = q * OWN + four * 4;
      const float4 bias4 = *(const float4*)(p.bias + channel), scale4 = *(const float4*)(p.scale + channel);
      const int4 zero4 = *(const int4*)(p.zero_sums + channel);
      const float bias[4] = {bias4.x, bias4.y, bias4.z, bias4.w}, scale[4] = {scale4.x, scale4.y, scale4.z, scale4.w};
      const int zero[4] = {zero4.x, zero4.y, zero4.z, zero4.w};
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int v[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            v[e] = steps_of(real_of<true, true>(sum[m][four * 2 + e / 2][2 * h + e % 2] + zero[e], scale[e], bias[e],
                                                RESIDUAL ? residual_of(other[m][h][four], e, p.finish) : 0.f, p.finish),
                            p.finish);
          // Fours of a pixel wait in the place of their first sum until all are there.
          sum[m][four * 2][2 * h] = pack_bytes(v[0], v[1], v[2], v[3]);
        }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = x0 + m * 16 + g + 8 * h;
        if (x >= p.out_w) continue;
        u8* to = p.y + n * p.ys[0] + y * p.ys[1] + x * p.ys[2] + q * OWN;
#if WIDTH == 16
        *(u32*)to = sum[m][0][2 * h];
#elif WIDTH == 32
        *(uint2*)to = make_uint2(sum[m][0][2 * h], sum[m][2][2 * h]);
#else
        *(uint4*)to = make_uint4(sum[m][0][2 * h], sum[m][2][2 * h], sum[m][4][2 * h], sum[m][6][2 * h]);
#endif
      }
  }
}
