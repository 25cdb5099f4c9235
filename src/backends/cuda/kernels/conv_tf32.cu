// Convolution of f32 on wgmma in tf32 (compute capability 9.0a): persistent, one warpgroup loads, NWG multiply. The
// instruction drops the lower 13 bits of what it reads, so weights are rounded when packed and results when stored.
// Macros:
//   IM2COL 0: 1x1 of stride 1 as a matrix, 1: im2col by the copy engine
//   MI times 64 pixels of a warpgroup, BN channels, KB bytes of depth in a row of a slab, KSUB slabs a stage, STAGES
//   COOP 1: the warpgroups share a tile of NWG * MI * 64 pixels, 0: each has its own
//   BRES 1: the weights of one tile of channels stay in shared memory
//   KR, KS, CIN, COUT, STRIDE, PAD_H, PAD_W, ACT, RESIDUAL
// Position n of 16 weights holds channel n % 8 / 2 * 4 + n / 8 * 2 + n % 2: four lanes store 64 bytes of a pixel.
// hopper.cuh and Mma<BN> stand before this text.
constexpr int WM = 64 * MI, TM = COOP ? NWG * WM : WM, CONSUMERS = COOP ? NWG : 1;
constexpr int KE = KB / 4, DEPTH = KR * KS * CIN * 4, NK = DEPTH / KB, NST = NK / KSUB, SLABS = CIN * 4 / KB,
              NT = (COUT + BN - 1) / BN;
static_assert(NK % KSUB == 0 && CIN * 4 % KB == 0 && BN % 16 == 0, "slabs");
constexpr int A_BYTES = KSUB * TM * KB, B_LOAD = BRES ? 0 : KSUB * BN * KB;
constexpr int STAGE = (A_BYTES + B_LOAD + 1023) / 1024 * 1024, AT_STAGES = BRES ? (BN * DEPTH + 1023) / 1024 * 1024 : 0;
constexpr int AT_BARRIERS = AT_STAGES + STAGES * STAGE;
static_assert(BN * KB % 1024 == 0 || (!BRES && KSUB == 1), "alignment");

struct Params {
  TensorMap a, b;
  const float *bias, *other;
  float* to;
  i64 to_pitch, other_pitch;  // elements from pixel to pixel
  int pixels, tiles, out_h, out_w;
  float alpha, beta;
};

// A block keeps its tile of channels where weights are resident; else tiles go by, channels first.
__device__ __forceinline__ bool tile_of(const Params& p, int it, int& nt, int& mt) {
  if (BRES) {
    nt = blockIdx.x % NT, mt = blockIdx.x / NT + it * (gridDim.x / NT);
  } else {
    const int t = blockIdx.x + it * gridDim.x;
    nt = t % NT, mt = t / NT;
  }
  return mt < p.tiles;
}
__device__ __forceinline__ float rounded(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// A loading warpgroup, not a lone warp: nine warps would put three on one of the four register files.
constexpr int THREADS = NWG * 128 + 128;
constexpr int REGISTERS = NWG == 2 ? 240 : NWG == 3 ? 160 : NWG == 4 ? 112 : 0, LOADER_REGISTERS = NWG == 2 ? 24 : 32;
// The residual of a small tile is asked for before the tile's products.
constexpr bool EARLY = RESIDUAL && MI * BN <= (NWG == 4 ? 64 : 128);
// A warpgroup that waits more than one phase ahead would see the parity of an older phase: each waits for its turn.
constexpr bool TURNS = !COOP && NWG > 1 && (NST > 1 || STAGES % NWG);

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_tf32(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), full = base + AT_BARRIERS, empty = full + 8 * STAGES,
            weights_full = empty + 8 * STAGES, turn = weights_full + 8;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 32) prefetch_map(&p.a), prefetch_map(&p.b);
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 4 * CONSUMERS);
    barrier_init(weights_full, 1);
    for (int i = 0; i < NWG; ++i) barrier_init(turn + 8 * i, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (warp >= NWG * 4) {
    if (REGISTERS) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOADER_REGISTERS));
    if (warp == NWG * 4 && lane == 0) {
      int nt, mt;
      if (BRES) {
        nt = blockIdx.x % NT;
        barrier_expect(weights_full, BN * DEPTH);
        for (int k = 0; k < NK; ++k) load_2d(base + k * BN * KB, &p.b, weights_full, k * KE, nt * BN);
      }
      // Weights come from no grid before this one: those of the first tile do not wait for it.
      int early = 0;
      if (!BRES && tile_of(p, 0, nt, mt))
        for (; early < STAGES && early < NST; ++early) {
          barrier_expect(full + 8 * early, A_BYTES + B_LOAD);
          for (int s = 0; s < KSUB; ++s)
            load_2d(base + early * STAGE + A_BYTES + s * BN * KB, &p.b, full + 8 * early, (early * KSUB + s) * KE,
                    nt * BN);
        }
      wait_previous_grid();
      launch_next_grid();
      u32 slot = 0, phase = 0;
      for (int it = 0; tile_of(p, it, nt, mt); ++it) {
        const int m = mt * TM, n = m / (p.out_h * p.out_w), r = m - n * p.out_h * p.out_w;
        const int h = r / p.out_w * STRIDE - PAD_H, w = r % p.out_w * STRIDE - PAD_W;
        for (int k = 0; k < NST; ++k) {
          barrier_wait(empty + 8 * slot, phase ^ 1);
          const u32 to = base + AT_STAGES + slot * STAGE, bar = full + 8 * slot;
          const bool asked = it == 0 && k < early;
          if (!asked) barrier_expect(bar, A_BYTES + B_LOAD);
#pragma unroll
          for (int s = 0; s < KSUB; ++s) {
            const int kk = k * KSUB + s, tap = kk / SLABS;
            if (IM2COL) load_im2col(to + s * TM * KB, &p.a, bar, kk % SLABS * KE, w, h, n, tap % KS, tap / KS);
            else load_2d(to + s * TM * KB, &p.a, bar, kk * KE, m);
            if (!BRES && !asked) load_2d(to + A_BYTES + s * BN * KB, &p.b, bar, kk * KE, nt * BN);
          }
          if (it == 0 && k == 0) leave(trail);
          if (++slot == STAGES) slot = 0, phase ^= 1;
        }
      }
    }
  } else {
    if (REGISTERS) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS ? REGISTERS : 24));
    const int wg = warp >> 2, q = lane & 3, row0 = (warp & 3) * 16 + (lane >> 2);
    int nt, mt, mine = 0;
    if (BRES) barrier_wait(weights_full, 0);
    // What this warpgroup stores, and loads itself, may be in use by the grid before.
    wait_previous_grid();
    for (int it = COOP ? 0 : wg; tile_of(p, it, nt, mt); it += COOP ? 1 : NWG, ++mine) {
      float sum[MI][BN / 2];
      const int m0 = mt * TM + (COOP ? wg * WM : 0) + row0, channel0 = nt * BN + q * 4;
      const auto residual = [&](float(&v)[MI][2][4], int g) {
#pragma unroll
        for (int mi = 0; mi < MI; ++mi)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int m = m0 + mi * 64 + 8 * h, channel = channel0 + g * 16;
            float4 f = make_float4(0.f, 0.f, 0.f, 0.f);
            if (channel < COUT && m < p.pixels) f = *(const float4*)(p.other + m * p.other_pitch + channel);
            v[mi][h][0] = f.x, v[mi][h][1] = f.y, v[mi][h][2] = f.z, v[mi][h][3] = f.w;
          }
      };
      float early[EARLY ? BN / 16 : 1][MI][2][4];
      if (EARLY)
#pragma unroll
        for (int g = 0; g < BN / 16; ++g) residual(early[EARLY ? g : 0], g);
      if (TURNS) {
        barrier_wait(turn + 8 * wg, wg ? mine & 1 : (mine & 1) ^ 1);
        // The turn is not passed on before all four warps have seen it: one that lags would wait for the next but one.
        asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
      }
      u32 previous = 0;
#pragma unroll 1
      for (int k = 0; k < NST; ++k) {
        const u32 use = it * NST + k, slot = use % STAGES, a0 = base + AT_STAGES + slot * STAGE;
        barrier_wait(full + 8 * slot, (use / STAGES) & 1);
        if (TURNS && k == NST - 1 && (threadIdx.x & 127) == 0) barrier_arrive(turn + 8 * ((wg + 1) % NWG));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < KSUB; ++s)
#pragma unroll
          for (int kk = 0; kk < KB / 32; ++kk) {
            const u64 b =
                operand<KB>((BRES ? base + (k * KSUB + s) * BN * KB : a0 + A_BYTES + s * BN * KB) + kk * 32, 8 * KB);
#pragma unroll
            for (int mi = 0; mi < MI; ++mi) {
              const u32 row = (COOP ? wg * WM : 0) + mi * 64;
              Mma<BN>::run(sum[mi], operand<KB>(a0 + s * TM * KB + row * KB + kk * 32, 8 * KB), b, k + s + kk);
            }
          }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k > 0) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (lane == 0) barrier_arrive(empty + 8 * previous);
        }
        previous = slot;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane == 0) barrier_arrive(empty + 8 * previous);
#pragma unroll
      for (int g = 0; g < BN / 16; ++g) {
        const int channel = channel0 + g * 16;
        if (channel >= COUT) continue;
        const float4 four = *(const float4*)(p.bias + channel);
        const float bias[4] = {four.x, four.y, four.z, four.w};
        float late[MI][2][4];
        if (RESIDUAL && !EARLY) residual(late, g);
#pragma unroll
        for (int mi = 0; mi < MI; ++mi)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int m = m0 + mi * 64 + 8 * h;
            if (m >= p.pixels) continue;
            const float(&other)[4] = EARLY ? early[EARLY ? g : 0][mi][h] : late[mi][h];
            float v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              float f = sum[mi][g * 8 + e / 2 * 4 + h * 2 + e % 2] + bias[e];
              if (RESIDUAL == 1) f += other[e];
              f = activate<ACT, false>(f, p.alpha, p.beta);
              if (RESIDUAL == 2) f += other[e];
              v[e] = rounded(f);
            }
            *(float4*)(p.to + m * p.to_pitch + channel) = make_float4(v[0], v[1], v[2], v[3]);
          }
      }
    }
  }
}
// For the host: bytes of shared memory, threads.
extern "C" __device__ const int meta[2] = {AT_BARRIERS + 16 * STAGES + 8 + 8 * NWG, THREADS};
