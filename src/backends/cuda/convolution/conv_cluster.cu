// SPDX-License-Identifier: Apache-2.0
// Convolution for few pixels (compute capability 9.0a): a tile of 64 pixels x BN channels for each cluster of
// SPLIT blocks, which share its depth. Everything a block multiplies is asked for at once, weights before the grid
// before has ended; sums go straight from registers into the shared memory of the block that owns the rows, and are
// added there in a fixed order. Macros: IM2COL, BN, SPLIT (1, 2, 4, 8), KB bytes of depth in a row of a slab, KR, KS,
// CIN, COUT, STRIDE, PAD_H, PAD_W, ACT, RESIDUAL, and BYTES, EB, OB, ZP as conv_wgmma.cu has them. Position n of 16
// weights holds channel n % 8 / 2 * 4 + n / 8 * 2 + n % 2. Mma<BN> stands before this text.
#include "conv_finish.cuh"
#include "pipeline.cuh"

constexpr int KE = KB / EB, NK = KR * KS * CIN * EB / KB, SLABS = CIN * EB / KB, NT = (COUT + BN - 1) / BN;
constexpr int ROWS = (COUT + 15) / 16 * 16;  // of lists by channel
constexpr int MOST = (NK + SPLIT - 1) / SPLIT, A_BYTES = 64 * KB, STAGE = A_BYTES + BN * KB;
constexpr int PIECE = BN / 16 * 512;  // sums of 8 rows
constexpr int OWN = 8 / SPLIT;        // pieces of a block
// Of lists by channel and of what borders add, a block keeps those of its tile.
constexpr int AT_SUMS = (STAGES * STAGE + 1023) / 1024 * 1024, AT_LISTS = AT_SUMS + 8 * PIECE,
              AT_EDGES = AT_LISTS + BN * 4 * NUMBERS, AT_PLACES = AT_EDGES + (EDGES ? BN * 4 * SUM_CLASSES : 0),
              AT_BARRIERS = AT_PLACES + PLACES;
static_assert(CIN * EB % KB == 0 && NK >= SPLIT, "depth");

#include "conv_cluster_params.h"
typedef tenon::cuda::ConvClusterParams Params;

// The block's slabs of depth, `count` from k0 on, and where the copy engine finds them.
struct Slabs {
  const Params& p;
  u32 base;
  Ring<STAGES> ring;
  int nt, m0, k0, count;
  int n, h, w;  // image, and the window's corner at the first pixel

  __device__ __forceinline__ u32 at(int k) const { return base + k % STAGES * STAGE; }
  __device__ __forceinline__ void load_weights(int k) const {
    load_2d(at(k) + A_BYTES, &p.b, ring.full_at(k % STAGES), (k0 + k) * KE, nt * BN);
  }
  __device__ __forceinline__ void load_pixels(int k) const {
    const int tap = (k0 + k) / SLABS, c = (k0 + k) % SLABS * KE;
    if (IM2COL) load_im2col(at(k), &p.a, ring.full_at(k % STAGES), c, w, h, n, tap % KS, tap / KS);
    else load_2d(at(k), &p.a, ring.full_at(k % STAGES), c, m0);
  }
  // By one thread: the barriers, and all that there is room for.
  __device__ __forceinline__ void begin(u32 sums_full, const Breadcrumb& breadcrumb) const {
    ring.init(4);
    if (SPLIT > 1) barrier_init(sums_full, 1);
    publish_barriers();
    fence_for_copy_engine();
    if (SPLIT > 1) barrier_expect(sums_full, 8 * PIECE);
    for (int k = 0; k < count && k < STAGES; ++k) {
      barrier_expect(ring.full_at(k), STAGE);
      load_weights(k);
    }
    wait_previous_grid();
    launch_next_grid();
    for (int k = 0; k < count && k < STAGES; ++k) load_pixels(k);
    leave(breadcrumb);
  }
  // Slab k has been read: its place is for another.
  __device__ __forceinline__ void replace(int k) const {
    const int next = k + STAGES;
    if ((threadIdx.x & 31) == 0) ring.release(k % STAGES);
    if (threadIdx.x == 0 && next < count) {
      barrier_wait(ring.empty_at(k % STAGES), k / STAGES & 1);
      barrier_expect(ring.full_at(k % STAGES), STAGE);
      load_weights(next);
      load_pixels(next);
    }
    __syncwarp();
  }
};

typedef Sum Sums[BN / 2];

__device__ __forceinline__ void multiply_slabs(Sums& sum, const Slabs& slabs) {
#pragma unroll 1
  for (int k = 0; k < slabs.count; ++k) {
    const u32 slot = slabs.at(k);
    barrier_wait(slabs.ring.full_at(k % STAGES), k / STAGES & 1);
    begin_products();
#pragma unroll
    for (int kk = 0; kk < KB / 32; ++kk)
      Mma<BN>::run(sum, operand<KB>(slot + kk * 32, 8 * KB), operand<KB>(slot + A_BYTES + kk * 32, 8 * KB), k + kk);
    commit_products();
    if (MOST > STAGES && k > 0) {
      wait_products<1>();
      slabs.replace(k - 1);
    }
  }
  wait_products<0>();
}

// Four neighbouring channels of row h of 8 in 16 channels j.
__device__ __forceinline__ uint4 four_of(const Sums& sum, int j, int h) {
  const u32* bits = (const u32*)sum + j * 8 + h * 2;
  return make_uint4(bits[0], bits[1], bits[4], bits[5]);
}
__device__ __forceinline__ u32 in_block(u32 address, int rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
// Sums go to the blocks that own their rows; those of all blocks are in shared memory afterwards.
__device__ __forceinline__ void exchange(const Sums& sum, u8* memory, u32 base, u32 sums_full, int rank) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int piece = 2 * warp + h;
    if constexpr (SPLIT == 1) {
#pragma unroll
      for (int j = 0; j < BN / 16; ++j)
        *(uint4*)(memory + AT_SUMS + piece * PIECE + j * 512 + lane * 16) = four_of(sum, j, h);
    } else {
      const u32 at = base + AT_SUMS + (rank * OWN + piece % OWN) * PIECE + lane * 16;
      const u32 to = in_block(at, piece / OWN), bar = in_block(sums_full, piece / OWN);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        const uint4 v = four_of(sum, j, h);
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(
                         to + j * 512),
                     "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(bar)
                     : "memory");
      }
    }
  }
  if constexpr (SPLIT == 1) __syncthreads();
  else
    asm volatile(
        "{.reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @!p bra L;}" ::"r"(
            sums_full)
        : "memory");
}

// Four channels of a pixel: 16 channels j of the block's piece `own`.
__device__ __forceinline__ void finish_unit(const Params& p, const u8* memory, const Borders& borders, int nt, int m,
                                            int j, int own) {
  const int lane = threadIdx.x & 31, at = j * 16 + (lane & 3) * 4, channel = nt * BN + at;
  if (m >= p.pixels || channel >= COUT) return;
  Sum s[4] = {};
#pragma unroll
  for (int r = 0; r < SPLIT; ++r) {
    const uint4 v = *(const uint4*)(memory + AT_SUMS + (r * OWN + own) * PIECE + j * 512 + lane * 16);
    s[0] += *(Sum*)&v.x, s[1] += *(Sum*)&v.y, s[2] += *(Sum*)&v.z, s[3] += *(Sum*)&v.w;
  }
  const float *numbers = (const float*)(memory + AT_LISTS) + at, *inverses = numbers + INVERSES * BN;
  float bias[4], scale[4];
  *(float4*)bias = *(const float4*)numbers;
  u32 other[4] = {}, o[4];
  if (RESIDUAL) load_global<4 * OB>(other, p.other + (i64)m * p.other_pitch + channel * OB);
  if (BYTES) *(float4*)scale = *(const float4*)(numbers + BN);
  if (ADDS) {
    const int4 zeros = *(const int4*)(numbers + 2 * BN);
    s[0] += zeros.x, s[1] += zeros.y, s[2] += zeros.z, s[3] += zeros.w;
  }
  if (EDGES) {
    const u32 place = (u32)m % (u32)(p.out_h * p.out_w);
    const int edge = borders.rows[place / (u32)p.out_w] + borders.columns[place % (u32)p.out_w];
    if (edge) {
      const int4 more = *(const int4*)(borders.sums + edge * borders.pitch + at);
      s[0] += more.x, s[1] += more.y, s[2] += more.z, s[3] += more.w;
    }
  }
  float f[4];
#pragma unroll
  for (int e = 0; e < 4; ++e)
    f[e] = result_of(s[e], scale[e], bias[e], residual_at(other, e, inverses + BN, e, p.finish), p.finish);
  pack_results<4>(
      o, f, inverses, [](int e) { return e; }, p.finish);
  u8* const to = p.to + (i64)m * p.to_pitch + channel * OB;
  if (!ODD) store_global<4 * OB>(to, o);
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (ODD && channel + e < COUT) store_one(to + e * OB, o, e);
}

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(128)
    conv_cluster(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), sums_full = base + AT_BARRIERS + 16 * STAGES;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int rank = blockIdx.x % SPLIT, tile = blockIdx.x / SPLIT, nt = tile % NT, mt = tile / NT;
  const int k0 = rank * NK / SPLIT, k1 = (rank + 1) * NK / SPLIT;
  const int m0 = mt * 64, r0 = m0 % (p.out_h * p.out_w), n0 = m0 / (p.out_h * p.out_w);
  const Ring<STAGES> ring = {base + AT_BARRIERS, base + AT_BARRIERS + 8 * STAGES};
  const Slabs slabs = {
      p, base, ring, nt, m0, k0, k1 - k0, n0, r0 / p.out_w * STRIDE - PAD_H, r0 % p.out_w * STRIDE - PAD_W};
  if (tid == 32) prefetch_map(&p.a);
  if (tid == 0) slabs.begin(sums_full, breadcrumb);
  for (int i = tid; i < BN / 4 * NUMBERS; i += 128)
    if (const int at = nt * BN + i % (BN / 4) * 4; at < ROWS)
      copy_16(base + AT_LISTS + i * 16, p.numbers + i / (BN / 4) * ROWS + at);
  Borders borders = {};
  if (EDGES) borders = keep_borders<BN, ROWS, 128>(p, memory, base, nt * BN, true, AT_EDGES, AT_PLACES);
  __syncthreads();
  if (SPLIT > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  Sums sum;
  multiply_slabs(sum, slabs);
  wait_copies();
  __syncthreads();
  wait_previous_grid();
  if (SPLIT > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  exchange(sum, memory, base, sums_full, rank);
#pragma unroll
  for (int unit = warp; unit < BN / 16 * OWN; unit += 4) {
    const int j = unit % (BN / 16), own = unit / (BN / 16);
    finish_unit(p, memory, borders, nt, m0 + (rank * OWN + own) * 8 + (lane >> 2), j, own);
  }
}
// For the host: bytes of shared memory.
extern "C" __device__ const int meta[1] = {AT_BARRIERS + 16 * STAGES + 8};
