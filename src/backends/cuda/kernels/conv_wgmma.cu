// Convolution on wgmma (compute capability 9.0a): persistent, one warpgroup loads, NWG multiply. Macros:
//   EB bytes of an operand's element, OB of the result's and the residual's. BYTES 1: bytes, the result too or f16,
//      behind bytes.cuh; else all are f16
//   ZP of bytes: 0 the input's zero point is 0, or in the bias; 1 it adds to every sum, 2 and less where taps lie
//      outside; 3 it is in the bias, and less where taps lie outside
//   MODE  0: 1x1 of stride 1 as a matrix, 1: im2col by the copy engine, 2: an input tile with its halo stays in shared
//         memory and every tap is a shifted start address (stride 1, tiles 8 pixels wide), each slab of channels apart
//   WM pixels of a warpgroup's tile, BN channels, KB bytes of depth in a row of a slab, KSUB slabs a stage, STAGES
//   COOP 1: the warpgroups share a tile of NWG * WM pixels, 0: each has its own
//   BRES 1: the weights of one tile of channels stay in shared memory, rows of KBB bytes
//   NBUF buffers a warpgroup for its result (and residual) on the way to memory, 0: straight from and to registers
//   GB bytes of channels a group: four lanes share a group, position n of its GC channels holds channel
//      n % 8 / 2 * (GC / 4) + n / 8 * 2 + n % 2; the lists by channel are packed in the order of reading
//   SWAP 1 (MODE 2, COUT <= BN = 64): weights are the M operand, WM pixels the N operand; position n of 16 holds
//      channel n % 8 * 2 + n / 8
//   BLOCKS that fit into a multiprocessor together
//   KR, KS, CIN, COUT, STRIDE, PAD_H, PAD_W, ACT, RESIDUAL
// hopper.cuh and Mma<N> of the widths in use stand before this text.
constexpr int TM = COOP ? NWG * WM : WM, CONSUMERS = COOP ? NWG : 1;
constexpr int DEPTH = KR * KS * CIN * EB, KE = KB / EB, NT = (COUT + BN - 1) / BN;
constexpr int MI = SWAP ? 1 : WM / 64, NI = SWAP ? WM : BN;
#if MODE == 2
constexpr int NST = 1, PW = 8 + KS - 1, TH = TM / 8, PH = TH + KR - 1;
constexpr int SLABS = CIN * EB / KB, A_SLAB = (PH * PW * KB + 1023) / 1024 * 1024;
constexpr int A_LOAD = SLABS * PH * PW * KB, A_BYTES = SLABS * A_SLAB;
#else
constexpr int NK = DEPTH / KB, NST = NK / KSUB, SLABS = CIN * EB / KB;
static_assert(NK % KSUB == 0 && CIN * EB % KB == 0, "slabs");
constexpr int A_LOAD = KSUB * TM * KB, A_BYTES = A_LOAD;
#endif
constexpr int B_LOAD = BRES ? 0 : KSUB * BN * KB;
constexpr int B_RESIDENT = BRES ? (BN * DEPTH + 1023) / 1024 * 1024 : 0;
constexpr int STAGE = (A_BYTES + B_LOAD + 1023) / 1024 * 1024;
constexpr int OUT_BYTES = WM * BN * OB;
constexpr int GC = GB / OB, NG = BN / GC;
constexpr int CH = GB / 4 < 16 ? GB / 4 : 16, TS = GB / 4 / CH;  // bytes an access, accesses a thread and group
constexpr bool ADDS = ZP == 1 || ZP == 2, EDGES = ZP >= 2;
constexpr int INVERSES = ADDS ? 3 : 2;  // the list of LISTED; that of the residual's scales follows
constexpr int NUMBERS = BYTES ? INVERSES + (LISTED ? RESIDUAL ? 2 : 1 : 0) : 1;  // for each channel
// What a block keeps of the lists by channel, and of what borders add: reading them from memory at the end of a tile
// would be waited for.
constexpr int OWN = BRES ? BN : NT * BN, KEPT = OWN * 4 * NUMBERS <= 8192 ? OWN * NUMBERS : 0;
constexpr int SUM_CLASSES = 9, SUMS = EDGES && OWN * 4 * SUM_CLASSES <= 9216 ? OWN * SUM_CLASSES : 0;
constexpr int PLACES = EDGES ? 512 : 0;  // rows, then columns
constexpr int AT_STAGES = B_RESIDENT, AT_OUT = AT_STAGES + STAGES * STAGE, AT_BIAS = AT_OUT + NWG * NBUF * OUT_BYTES,
              AT_SUMS = AT_BIAS + KEPT * 4, AT_PLACES = AT_SUMS + SUMS * 4, AT_BARRIERS = AT_PLACES + PLACES;
static_assert(BN % GC == 0 && OUT_BYTES % 1024 == 0, "alignment");

struct Params {
  TensorMap a, b, y, residual;
  const float* numbers;  // by tile of channels
  u8* to;
  const u8* other;
  const int* border_sums;  // [class][channel]
  const u8 *border_rows, *border_columns;
  i64 to_pitch, other_pitch;  // bytes from pixel to pixel
  int pixels, tiles, out_h, out_w, tiles_w, tiles_h, classes;
  Finish finish;
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
struct Corner {
  int n, h, w;  // image, and the tile's first row and column of results
};
__device__ __forceinline__ Corner corner_of(const Params& p, int mt) {
#if MODE == 2
  const int rest = mt / p.tiles_w;
  return {rest / p.tiles_h, rest % p.tiles_h * TH, mt % p.tiles_w * 8};
#else
  const int m = mt * TM, n = m / (p.out_h * p.out_w), r = m - n * p.out_h * p.out_w;
  return {n, r / p.out_w, r % p.out_w};
#endif
}

// A loading warpgroup, not a lone warp: nine warps would put three on one of the four register files.
constexpr int THREADS = NWG * 128 + 128;
constexpr int REGISTERS = NWG == 2 ? (BLOCKS == 2 ? 104 : 240) : NWG == 3 ? 160 : NWG == 4 ? 112 : 0,
              LOADER_REGISTERS = NWG == 2 ? 24 : 32;
// A warpgroup that waits more than one phase ahead would see the parity of an older phase: each waits for its turn.
constexpr bool TURNS = !COOP && NWG > 1 && (NST > 1 || STAGES % NWG);

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_wgmma(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), full = base + AT_BARRIERS, empty = full + 8 * STAGES,
            weights_full = full + 16 * STAGES, other_full = weights_full + 8, other_empty = other_full + 8 * NWG * NBUF,
            turn = other_empty + 8 * NWG * NBUF;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 32) {
    prefetch_map(&p.a), prefetch_map(&p.b);
    if (NBUF) prefetch_map(&p.y);
    if (NBUF && RESIDUAL) prefetch_map(&p.residual);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 4 * CONSUMERS);
    barrier_init(weights_full, 1);
    for (int i = 0; i < NWG; ++i) barrier_init(turn + 8 * i, 1);
    for (int i = 0; i < NWG * NBUF; ++i) barrier_init(other_full + 8 * i, 1), barrier_init(other_empty + 8 * i, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (warp >= NWG * 4) {
    if (REGISTERS) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOADER_REGISTERS));
    if (warp == NWG * 4) {  // pixels and weights
      if (lane == 0) {
        int nt, mt;
        if (BRES) {
          nt = blockIdx.x % NT;
          barrier_expect(weights_full, BN * DEPTH);
          for (int k = 0; k < DEPTH / KBB; ++k)
            load_2d(base + k * BN * KBB, &p.b, weights_full, k * (KBB / EB), nt * BN);
        }
        // Weights come from no grid before this one: those of the first tile do not wait for it.
        int early = 0;
#if MODE != 2
        if (!BRES && tile_of(p, 0, nt, mt))
          for (; early < STAGES && early < NST; ++early) {
            barrier_expect(full + 8 * early, A_LOAD + B_LOAD);
            for (int s = 0; s < KSUB; ++s)
              load_2d(base + AT_STAGES + early * STAGE + A_BYTES + s * BN * KB, &p.b, full + 8 * early,
                      (early * KSUB + s) * KE, nt * BN);
          }
#endif
        wait_previous_grid();
        launch_next_grid();
        u32 slot = 0, phase = 0;
        for (int it = 0; tile_of(p, it, nt, mt); ++it) {
          const Corner corner = corner_of(p, mt);
          for (int k = 0; k < NST; ++k) {
            barrier_wait(empty + 8 * slot, phase ^ 1);
            const u32 to = base + AT_STAGES + slot * STAGE, bar = full + 8 * slot;
            const bool asked = it == 0 && k < early;
            if (!asked) barrier_expect(bar, A_LOAD + B_LOAD);
#if MODE == 2
#pragma unroll
            for (int s = 0; s < SLABS; ++s)
              load_4d(to + s * A_SLAB, &p.a, bar, s * KE, corner.w - PAD_W, corner.h - PAD_H, corner.n);
#else
#pragma unroll
            for (int s = 0; s < KSUB; ++s) {
              const int kk = k * KSUB + s;
#if MODE == 1
              const int tap = kk / SLABS;
              load_im2col(to + s * TM * KB, &p.a, bar, kk % SLABS * KE, corner.w * STRIDE - PAD_W,
                          corner.h * STRIDE - PAD_H, corner.n, tap % KS, tap / KS);
#else
              load_2d(to + s * TM * KB, &p.a, bar, kk * KE, mt * TM);
#endif
              if (!BRES && !asked) load_2d(to + A_BYTES + s * BN * KB, &p.b, bar, kk * KE, nt * BN);
            }
#endif
            if (it == 0 && k == 0) leave(trail);
            if (++slot == STAGES) slot = 0, phase ^= 1;
          }
        }
      }
    } else if (warp == NWG * 4 + 1) {  // the residual, into the buffers of the result
      if (RESIDUAL && NBUF && lane == 0) {
        wait_previous_grid();
        int nt, mt, count[NWG] = {};
        for (int it = 0; tile_of(p, it, nt, mt); ++it) {
#pragma unroll
          for (int w = 0; w < NWG; ++w) {
            if (!COOP && it % NWG != w) continue;
            const int i = count[w]++, buffers = NBUF ? NBUF : 1, buffer = w * NBUF + i % buffers;
            barrier_wait(other_empty + 8 * buffer, ((i / buffers) & 1) ^ 1);
            const u32 to = base + AT_OUT + buffer * OUT_BYTES, bar = other_full + 8 * buffer;
            barrier_expect(bar, OUT_BYTES);
            for (int g = 0; g < NG; ++g) {
#if MODE == 2
              const Corner corner = corner_of(p, mt);
              load_4d(to + g * WM * GB, &p.residual, bar, nt * BN + g * GC, corner.w,
                      corner.h + (COOP ? w * (WM / 8) : 0), corner.n);
#else
              load_2d(to + g * WM * GB, &p.residual, bar, nt * BN + g * GC, mt * TM + (COOP ? w * WM : 0));
#endif
            }
          }
        }
      }
    }
  } else {
    if (REGISTERS) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS ? REGISTERS : 24));
    const int wg = warp >> 2, tid = threadIdx.x & 127, q = lane & 3, row0 = (warp & 3) * 16 + (lane >> 2);
    int nt, mt, mine = 0;
    // The loading warps do not wait for the lists.
    const int own_tile = BRES ? blockIdx.x % NT : 0;
    for (int i = threadIdx.x; i < KEPT / 4; i += NWG * 128)
      copy_16(base + AT_BIAS + i * 16, p.numbers + own_tile * BN * NUMBERS + i * 4);
#if ZP >= 2
    const bool keeps_places = max(p.out_h, p.out_w) <= PLACES / 2, keeps_sums = SUMS > 0 && p.classes <= SUM_CLASSES;
    if (keeps_sums)
      for (int i = threadIdx.x; i < p.classes * (OWN / 4); i += NWG * 128)
        copy_16(base + AT_SUMS + i * 16, p.border_sums + i / (OWN / 4) * (NT * BN) + own_tile * BN + i % (OWN / 4) * 4);
    if (keeps_places) {
      const int i = threadIdx.x;
      if (i < (p.out_h + 15) / 16) copy_16(base + AT_PLACES + i * 16, p.border_rows + i * 16);
      if (i < (p.out_w + 15) / 16) copy_16(base + AT_PLACES + PLACES / 2 + i * 16, p.border_columns + i * 16);
    }
    const u8* border_rows = keeps_places ? memory + AT_PLACES : p.border_rows;
    const u8* border_columns = keeps_places ? memory + AT_PLACES + PLACES / 2 : p.border_columns;
    const int* border_sums = keeps_sums ? (const int*)(memory + AT_SUMS) : p.border_sums + own_tile * BN;
    const int sums_pitch = keeps_sums ? OWN : NT * BN;
#endif
    if (KEPT || EDGES) {
      asm volatile("cp.async.wait_all;" ::: "memory");
      asm volatile("bar.sync 8, %0;" ::"n"(NWG * 128) : "memory");
    }
    if (BRES) barrier_wait(weights_full, 0);
    // What this warpgroup stores, and loads itself, may be in use by the grid before.
    wait_previous_grid();
    for (int it = COOP ? 0 : wg; tile_of(p, it, nt, mt); it += COOP ? 1 : NWG, ++mine) {
      Sum sum[MI][NI / 2];
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
        if (TURNS && k == NST - 1 && tid == 0) barrier_arrive(turn + 8 * ((wg + 1) % NWG));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#if MODE == 2
        const int first_row = COOP ? wg * (WM / 8) : 0;
#pragma unroll
        for (int t = 0; t < KR * KS; ++t)
#pragma unroll
          for (int part = 0; part < SLABS * KB / 32; ++part) {
            const int s = part / (KB / 32), kk = part % (KB / 32), byte = (t * SLABS + s) * KB + kk * 32;
            const u64 b = operand<KBB>(base + byte / KBB * BN * KBB + byte % KBB, 8 * KBB);
#pragma unroll
            for (int mi = 0; mi < MI; ++mi) {
              const u32 row = (first_row + mi * 8 + t / KS) * PW + t % KS;
              const u64 a = operand<KB>(a0 + s * A_SLAB + row * KB + kk * 32, PW * KB);
              Mma<NI>::run(sum[mi], SWAP ? b : a, SWAP ? a : b, t + part);
            }
          }
#else
#pragma unroll
        for (int s = 0; s < KSUB; ++s)
#pragma unroll
          for (int kk = 0; kk < KB / 32; ++kk) {
            const int byte = (k * KSUB + s) * KB + kk * 32;
            const u64 b = BRES ? operand<KBB>(base + byte / KBB * BN * KBB + byte % KBB, 8 * KBB)
                               : operand<KB>(a0 + A_BYTES + s * BN * KB + kk * 32, 8 * KB);
#pragma unroll
            for (int mi = 0; mi < MI; ++mi) {
              const u32 row = (COOP ? wg * WM : 0) + mi * 64;
              Mma<NI>::run(sum[mi], operand<KB>(a0 + s * TM * KB + row * KB + kk * 32, 8 * KB), b, k + s + kk);
            }
          }
#endif
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k > 0) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (lane == 0) barrier_arrive(empty + 8 * previous);
        }
        previous = slot;
      }
      // The buffer is free once its store before last has been read; a residual is loaded into the one freed.
      const int buffers = NBUF ? NBUF : 1, buffer = mine % buffers;
      const u32 staged = base + AT_OUT + (wg * NBUF + buffer) * OUT_BYTES;
      if (NBUF && tid == 0) {
        if (RESIDUAL) {
          if (mine > 0) {
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            barrier_arrive(other_empty + 8 * (wg * NBUF + (mine - 1) % buffers));
          }
        } else {
          asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(NBUF ? NBUF - 1 : 0) : "memory");
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (lane == 0) barrier_arrive(empty + 8 * previous);
      if (NBUF) {
        if (RESIDUAL) barrier_wait(other_full + 8 * (wg * NBUF + buffer), (mine / buffers) & 1);
        else asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
      }
      const int n0 = nt * BN;
      const Corner corner = corner_of(p, mt);
      const int own_row = corner.h + (MODE == 2 && COOP ? wg * (WM / 8) : 0), m0 = mt * TM + (COOP ? wg * WM : 0);
      const int own = BRES ? 0 : nt;
      const float* numbers = KEPT ? (const float*)(memory + AT_BIAS) + own * BN * NUMBERS : p.numbers + nt * BN * NUMBERS;
#if SWAP
      const int c0 = (warp & 3) * 16 + (lane >> 2) * 2;
#if BYTES
      const float *inverses = numbers + INVERSES * BN + c0, *r_scales = inverses + BN;
#endif
#if ZP
      const int* zeros = (const int*)numbers + (ADDS ? 2 : 0) * BN + c0;
#pragma unroll
      for (int j = 0; j < WM / 8; ++j) {
        const int y = own_row + j, x0 = corner.w + 2 * q;
#if ZP >= 2
        const int row = y < p.out_h ? border_rows[y] : 0;
#endif
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (ADDS) sum[0][j * 4 + e] += zeros[0], sum[0][j * 4 + 2 + e] += zeros[1];
#if ZP >= 2
          const int edge = row + (x0 + e < p.out_w ? border_columns[x0 + e] : 0);
          if (edge) {
            const int2 more = *(const int2*)(border_sums + edge * sums_pitch + c0);
            sum[0][j * 4 + e] += more.x, sum[0][j * 4 + 2 + e] += more.y;
          }
#endif
        }
      }
#endif
#pragma unroll
      for (int j = 0; j < WM / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int pixel = j * 8 + 2 * q + e, byte = c0 * OB;
          const u32 at = staged + pixel * GB + (((byte >> 4) ^ swizzle<GB>(2 * q + e)) << 4) + (byte & 15);
#if BYTES
          u16 other = 0;
          if (RESIDUAL) asm volatile("ld.shared.u16 %0, [%1];" : "=h"(other) : "r"(at));
          float f[2];
#pragma unroll
          for (int h = 0; h < 2; ++h)
            f[h] = real_of<true, OB == 1>(sum[0][j * 4 + h * 2 + e], numbers[BN + c0 + h], numbers[c0 + h],
                                 RESIDUAL ? residual_of(other, h, r_scale_of(r_scales, h, p.finish), p.finish) : 0.f,
                                 p.finish);
          if (OB == 1) {
            const auto steps = [&](int h) { return steps_of(f[h], inverse_of(inverses, h, p.finish), p.finish); };
            const u16 packed = (u16)pack_bytes(steps(0), steps(1), 0, 0);
            asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(packed) : "memory");
          } else {
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(pack_halves(f[0], f[1])) : "memory");
          }
#else
          u32 other = 0;
          if (RESIDUAL) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(other) : "r"(at));
          float f[2];
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            f[h] = sum[0][j * 4 + h * 2 + e] + numbers[c0 + h];
            if (RESIDUAL == 1) f[h] += half_of(other, h);
            f[h] = activate<ACT, true>(f[h], p.finish.alpha, p.finish.beta);
            if (RESIDUAL == 2) f[h] += half_of(other, h);
          }
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(pack_halves(f[0], f[1])) : "memory");
#endif
        }
#else
      constexpr int V = CH / OB;  // channels an access
#if ZP == 1 || ZP == 2
#pragma unroll
      for (int g = 0; g < NG; ++g)
#pragma unroll
        for (int i = 0; i < GC / 4; i += 4) {
          const int4 z = *(const int4*)(numbers + 2 * BN + (g * (GC / 16) + i / 4) * 16 + q * 4);
#pragma unroll
          for (int mi = 0; mi < MI; ++mi)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              int* to = &sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2];
              to[0] += z.x, to[1] += z.y, to[4] += z.z, to[5] += z.w;
            }
        }
#endif
#if ZP >= 2
#pragma unroll
      for (int mi = 0; mi < MI; ++mi)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = mi * 64 + row0 + 8 * h;
#if MODE == 2
          const int y = min(own_row + row / 8, p.out_h - 1), x = min(corner.w + row % 8, p.out_w - 1);
#else
          const u32 place = (u32)(m0 + row) % (u32)(p.out_h * p.out_w);
          const int y = place / (u32)p.out_w, x = place % (u32)p.out_w;
#endif
          const int edge = border_rows[y] + border_columns[x];
          if (edge == 0) continue;
          const int* more = border_sums + edge * sums_pitch + own * BN + q * (GC / 4);
#pragma unroll
          for (int g = 0; g < NG; ++g)
#pragma unroll
            for (int i = 0; i < GC / 4; i += 4) {
              const int4 z = *(const int4*)(more + g * GC + i);
              int* to = &sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2];
              to[0] += z.x, to[1] += z.y, to[4] += z.z, to[5] += z.w;
            }
        }
#endif
#pragma unroll
      for (int g = 0; g < NG; ++g)
#pragma unroll
        for (int t = 0; t < TS; ++t) {
          const int byte = q * (GB / 4) + t * CH, channel = n0 + g * GC + byte / OB;
          float bias[V];
#if BYTES
          float scale[V];
          const float *inverses = numbers + INVERSES * BN, *r_scales = inverses + BN;
#endif
          const auto listed = [&](int k) { return ((g * TS + t) * (V / 4) + k / 4) * 16 + q * 4 + k % 4; };
#pragma unroll
          for (int k = 0; k < V; k += 4) {
            *(float4*)&bias[k] = *(const float4*)(numbers + listed(k));
#if BYTES
            *(float4*)&scale[k] = *(const float4*)(numbers + BN + listed(k));
#endif
          }
#pragma unroll
          for (int mi = 0; mi < MI; ++mi)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const int row = mi * 64 + row0 + 8 * h;
              const u32 at = staged + g * WM * GB + row * GB + (((byte >> 4) ^ swizzle<GB>(row)) << 4) + (byte & 15);
              i64 pixel = 0;
              bool inside = true;
              if (!NBUF) {
#if MODE == 2
                const int y = own_row + row / 8, x = corner.w + row % 8;
                inside = y < p.out_h && x < p.out_w, pixel = (i64)(corner.n * p.out_h + y) * p.out_w + x;
#else
                inside = m0 + row < p.pixels, pixel = m0 + row;
#endif
                inside = inside && channel < COUT;
              }
              u32 r[4] = {}, o[4];
              if (RESIDUAL && NBUF) load_shared<CH>(r, at);
              else if (RESIDUAL && inside) load_global<CH>(r, p.other + pixel * p.other_pitch + channel * OB);
              float v[V];
#pragma unroll
              for (int k = 0; k < V; ++k) {
                const int i = t * V + k;
                const Sum s = sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2 + i % 2];
#if BYTES
                const float other =
                    RESIDUAL ? residual_of(r[k / 4], k % 4, r_scale_of(r_scales, listed(k), p.finish), p.finish) : 0.f;
                v[k] = real_of<true, OB == 1>(s, scale[k], bias[k], other, p.finish);
#else
                float f = s + bias[k];
                if (RESIDUAL == 1) f += half_of(r[k / 2], k % 2);
                f = activate<ACT, true>(f, p.finish.alpha, p.finish.beta);
                if (RESIDUAL == 2) f += half_of(r[k / 2], k % 2);
                v[k] = f;
#endif
              }
#if BYTES && OB == 1
              const auto steps = [&](int k) {
                return steps_of(v[k], inverse_of(inverses, listed(k), p.finish), p.finish);
              };
#pragma unroll
              for (int k = 0; k < CH; k += 4) o[k / 4] = pack_bytes(steps(k), steps(k + 1), steps(k + 2), steps(k + 3));
#else
#pragma unroll
              for (int k = 0; k < CH / 4; ++k) o[k] = pack_halves(v[2 * k], v[2 * k + 1]);
#endif
              if (NBUF) store_shared<CH>(at, o);
              else if (inside) store_global<CH>(p.to + pixel * p.to_pitch + channel * OB, o);
            }
        }
#endif
      if (NBUF) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
        if (tid == 0) {
          for (int g = 0; g < NG; ++g) {
#if MODE == 2
            store_4d(&p.y, staged + g * WM * GB, n0 + g * GC, corner.w, own_row, corner.n);
#else
            store_2d(&p.y, staged + g * WM * GB, n0 + g * GC, m0);
#endif
          }
          asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
      }
    }
    if (NBUF && tid == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
// For the host: bytes of shared memory, threads, pixels a tile, height and width of the halo tile.
extern "C" __device__ const int meta[5] = {AT_BARRIERS + 16 * STAGES + 8 + 16 * NWG * NBUF + 8 * NWG, THREADS, TM,
#if MODE == 2
                                           PH, PW};
#else
                                           0, 0};
#endif
