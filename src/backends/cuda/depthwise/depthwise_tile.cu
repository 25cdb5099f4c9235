// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution with a large window, behind depthwise.cuh: a block brings the pixels of TH rows and STRIPS x TW
// columns of GROUP channels and the weights to shared memory at once, then a thread makes TW neighbouring pixels of two
// channels, by KC columns of the window at a time. Compute capability 8.0 and later. Macros: ELEMENT, TY types, TW,
// STRIPS, TH, GROUP, KH, KW, SH, SW (kernel, strides), ACT, RESIDUAL.
constexpr int CHUNK = 16 / sizeof(ELEMENT), CHUNKS = GROUP / CHUNK, PAIRS = GROUP / 2, TC = TW * STRIPS;
constexpr int THREADS = PAIRS * TH * STRIPS, CHUNKS_OF_KW = (KW + 30) / 31, KC = (KW + CHUNKS_OF_KW - 1) / CHUNKS_OF_KW;
constexpr int IN = (TW - 1) * SW + KC;
// An odd pitch, so that rows lie in different banks.
constexpr int IN_H = (TH - 1) * SH + KH, IN_W = (TC - 1) * SW + KW, PITCH = IN_W | 1;

struct __align__(2 * sizeof(ELEMENT)) PairX {
  ELEMENT e[2];
};
struct __align__(2 * sizeof(TY)) PairY {
  TY e[2];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_tile(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(16) u8 memory[];
  ELEMENT* const pixels = (ELEMENT*)memory;
  float* const weights = (float*)(pixels + IN_H * PITCH * GROUP);
  const int groups = (p.channels + GROUP - 1) / GROUP, c0 = blockIdx.x % groups * GROUP;
  const int q0 = blockIdx.x / groups % p.strips * TC, r0 = blockIdx.x / groups / p.strips % p.count * TH,
            n = blockIdx.x / groups / p.strips / p.count;
  // Weights come from no kernel before this one.
  for (int i = threadIdx.x; i < KH * KW * GROUP; i += THREADS) {
    const int c = c0 + i % GROUP;
    weights[i] = c < p.channels ? p.w[i / GROUP * p.channels + c] : 0.f;
  }
  wait_for_previous(breadcrumb);
  const ELEMENT* image = p.x + n * p.xs[0] + c0;
  for (int i = threadIdx.x; i < IN_H * IN_W * CHUNKS; i += THREADS) {
    const int c = i % CHUNKS * CHUNK, w = i / CHUNKS % IN_W, h = i / CHUNKS / IN_W;
    const int row = r0 * SH - p.pad_top + h, column = q0 * SW - p.pad_left + w;
    const bool there = (u32)row < (u32)p.in_h && (u32)column < (u32)p.in_w && c0 + c < p.channels;
    const ELEMENT* from = there ? image + row * p.xs[1] + column * p.xs[2] + c : p.x;
    const u32 to = (u32)__cvta_generic_to_shared(pixels + (h * PITCH + w) * GROUP + c);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();

  const int own = threadIdx.x % PAIRS * 2, row = threadIdx.x / PAIRS % TH, strip = threadIdx.x / (PAIRS * TH);
  const int c = c0 + own, r = r0 + row;
  if (c >= p.channels || r >= p.out_h) return;
  float sum[TW][2];
  const float2 bias = *(const float2*)(p.bias + c);
#pragma unroll
  for (int t = 0; t < TW; ++t) sum[t][0] = bias.x, sum[t][1] = bias.y;
#pragma unroll(KH* KW <= 49 ? KH * CHUNKS_OF_KW : 1)
  for (int step = 0; step < KH * CHUNKS_OF_KW; ++step) {
    const int kr = step / CHUNKS_OF_KW, first = step % CHUNKS_OF_KW * KC;
    const ELEMENT* line = pixels + ((row * SH + kr) * PITCH + strip * TW * SW + first) * GROUP + own;
    float in[IN][2];
#pragma unroll
    for (int k = 0; k < IN; ++k) {
      const PairX v = *(const PairX*)(line + k * GROUP);
      in[k][0] = f32_of(v.e[0]), in[k][1] = f32_of(v.e[1]);
    }
#pragma unroll
    for (int ks = 0; ks < KC; ++ks) {
      if (KW % KC && first + ks >= KW) break;
      const float2 weight = *(const float2*)(weights + (kr * KW + first + ks) * GROUP + own);
#pragma unroll
      for (int t = 0; t < TW; ++t) {
        sum[t][0] = fmaf(in[t * SW + ks][0], weight.x, sum[t][0]);
        sum[t][1] = fmaf(in[t * SW + ks][1], weight.y, sum[t][1]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < TW; ++t) {
    const int q = q0 + strip * TW + t;
    if (q >= p.out_w) break;
    PairY out, other = {};
    if (RESIDUAL) other = *(const PairY*)(p.residual + n * p.rs[0] + r * p.rs[1] + q * p.rs[2] + c);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float v = sum[t][e];
      if (RESIDUAL == 1) v += f32_of(other.e[e]);
      v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
      if (RESIDUAL == 2) v += f32_of(other.e[e]);
      out.e[e] = of_f32<TY>(v);
    }
    *(PairY*)(p.y + n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c) = out;
  }
}
