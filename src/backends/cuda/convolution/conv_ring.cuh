// SPDX-License-Identifier: Apache-2.0
// What the persistent convolutions on wgmma share: the tiles of a block, the layout of a stage, and the thread that
// has pixels and weights copied. Macros:
//   EB bytes of an operand's element
//   MODE  0: 1x1 of stride 1 as a matrix, 1: im2col by the copy engine, 2: an input tile with its halo stays in shared
//         memory and every tap is a shifted start address (stride 1, tiles 8 pixels wide), each slab of channels apart
//   WM pixels of a warpgroup's tile, BN channels, KB bytes of depth in a row of a slab, KSUB slabs a stage, STAGES
//   COOP 1: the warpgroups share a tile of NWG * WM pixels, 0: each has its own
//   BRES 1: the weights of one tile of channels stay in shared memory, rows of KBB bytes
//   PIXELS_FIRST 1: tiles of pixels go by before those of channels, as weights are many
//   KR, KS, CIN, COUT, STRIDE, PAD_H, PAD_W
// Params has the maps a and b of pixels and weights, the number of tiles, out_h and out_w, and of MODE 2 tiles_h and
// tiles_w.
#pragma once
#include "pipeline.cuh"

constexpr bool HALO = MODE == 2;
constexpr int TM = COOP ? NWG * WM : WM, CONSUMERS = COOP ? NWG : 1;
constexpr int DEPTH = KR * KS * CIN * EB, KE = KB / EB, NT = (COUT + BN - 1) / BN, SLABS = CIN * EB / KB;
constexpr int PW = 8 + KS - 1, TH = TM / 8, PH = TH + KR - 1;  // of a tile with its halo
constexpr int NST = HALO ? 1 : DEPTH / KB / KSUB;              // stages of a tile
static_assert(CIN * EB % KB == 0 && (HALO || DEPTH / KB % KSUB == 0), "slabs");
constexpr int A_SLAB = HALO ? (PH * PW * KB + 1023) / 1024 * 1024 : TM * KB;
constexpr int A_SLABS = HALO ? SLABS : KSUB, A_BYTES = A_SLABS * A_SLAB, A_LOAD = HALO ? SLABS * PH * PW * KB : A_BYTES;
constexpr int B_LOAD = BRES ? 0 : KSUB * BN * KB;
constexpr int B_RESIDENT = BRES ? (BN * DEPTH + 1023) / 1024 * 1024 : 0;
constexpr int STAGE = (A_BYTES + B_LOAD + 1023) / 1024 * 1024, AT_STAGES = B_RESIDENT;
constexpr bool TAKES_TURNS = !COOP && NWG > 1 && (NST > 1 || STAGES % NWG);

// A block keeps its tile of channels where weights are resident; else tiles go by, channels first, or pixels.
template <class Params>
__device__ __forceinline__ bool tile_of(const Params& p, int it, int& nt, int& mt) {
  if (BRES) {
    nt = blockIdx.x % NT, mt = blockIdx.x / NT + it * (gridDim.x / NT);
  } else {
    const int t = blockIdx.x + it * gridDim.x;
#if PIXELS_FIRST
    mt = t % p.tiles, nt = t / p.tiles;
    return nt < NT;
#else
    nt = t % NT, mt = t / NT;
#endif
  }
  return mt < p.tiles;
}
struct Corner {
  int n, h, w;  // image, and the tile's first row and column of results
};
template <class Params>
__device__ __forceinline__ Corner corner_of(const Params& p, int mt) {
  if constexpr (HALO) {
    const int rest = mt / p.tiles_w;
    return {rest / p.tiles_h, rest % p.tiles_h * TH, mt % p.tiles_w * 8};
  } else {
    const int m = mt * TM, n = m / (p.out_h * p.out_w), r = m - n * p.out_h * p.out_w;
    return {n, r / p.out_w, r % p.out_w};
  }
}

// Slab kk of a tile of pixels, the one with its halo coming as a whole, and of its weights.
template <class Params>
__device__ __forceinline__ void load_pixels(const Params& p, u32 to, u32 bar, int kk, int mt, const Corner& corner) {
  const int tap = kk / SLABS;
  if (HALO) load_4d(to, &p.a, bar, kk * KE, corner.w - PAD_W, corner.h - PAD_H, corner.n);
  else if (MODE == 1)
    load_im2col(to, &p.a, bar, kk % SLABS * KE, corner.w * STRIDE - PAD_W, corner.h * STRIDE - PAD_H, corner.n,
                tap % KS, tap / KS);
  else load_2d(to, &p.a, bar, kk * KE, mt * TM);
}
template <class Params>
__device__ __forceinline__ void load_weights(const Params& p, u32 to, u32 bar, int kk, int nt) {
  load_2d(to, &p.b, bar, kk * KE, nt * BN);
}

// By one thread: all that the block multiplies.
template <class Params>
__device__ __forceinline__ void load_tiles(const Params& p, const Breadcrumb& breadcrumb, u32 base,
                                           const Ring<STAGES>& ring, u32 weights_full) {
  int nt, mt;
  if (BRES) {
    nt = blockIdx.x % NT;
    barrier_expect(weights_full, BN * DEPTH);
    for (int k = 0; k < DEPTH / KBB; ++k) load_2d(base + k * BN * KBB, &p.b, weights_full, k * (KBB / EB), nt * BN);
  }
  // Weights come from no grid before this one: those of the first tile do not wait for it.
  int early = 0;
  if (!HALO && !BRES && tile_of(p, 0, nt, mt))
    for (; early < STAGES && early < NST; ++early) {
      barrier_expect(ring.full_at(early), A_LOAD + B_LOAD);
      for (int s = 0; s < KSUB; ++s)
        load_weights(p, base + AT_STAGES + early * STAGE + A_BYTES + s * BN * KB, ring.full_at(early), early * KSUB + s,
                     nt);
    }
  wait_previous_grid();
  launch_next_grid();
  Cursor<STAGES> at;
  for (int it = 0; tile_of(p, it, nt, mt); ++it) {
    const Corner corner = corner_of(p, mt);
    for (int k = 0; k < NST; ++k) {
      at.wait_empty(ring);
      const u32 to = base + AT_STAGES + at.slot * STAGE, bar = ring.full_at(at.slot);
      const bool asked = it == 0 && k < early;
      if (!asked) barrier_expect(bar, A_LOAD + B_LOAD);
#pragma unroll
      for (int s = 0; s < A_SLABS; ++s) {
        load_pixels(p, to + s * A_SLAB, bar, k * A_SLABS + s, mt, corner);
        if (!HALO && !BRES && !asked) load_weights(p, to + A_BYTES + s * BN * KB, bar, k * KSUB + s, nt);
      }
      if (it == 0 && k == 0) leave(breadcrumb);
      at.advance();
    }
  }
}
