// SPDX-License-Identifier: Apache-2.0
// The pipeline of persistent kernels on wgmma: one warpgroup loads, a thread of it asking the copy engine for what NWG
// others multiply; stages of shared memory go round between them.
#pragma once
#include "hopper.cuh"

// A loading warpgroup, not a lone warp: nine warps would put three on one of the four register files.
constexpr int pipeline_threads(int groups) { return groups * 128 + 128; }
// Registers of a thread that multiplies, where there are that many groups of them and blocks; 0: as the kernel begins.
constexpr int product_registers(int groups, int blocks) {
  return groups == 2 ? (blocks == 2 ? 104 : 240) : groups == 3 ? 160 : groups == 4 ? 112 : 0;
}
constexpr int loader_registers(int groups) { return groups < 2 || groups > 4 ? 0 : groups == 2 ? 24 : 32; }

// SLOTS places, each with a barrier that says full and one that says empty.
template <int SLOTS>
struct Ring {
  u32 full, empty;  // the first barrier of each kind

  static constexpr int BYTES_OF_BARRIERS = 16 * SLOTS;
  __device__ __forceinline__ u32 full_at(u32 slot) const { return full + 8 * slot; }
  __device__ __forceinline__ u32 empty_at(u32 slot) const { return empty + 8 * slot; }
  // By one thread: a stage is empty again after that many arrivals.
  __device__ __forceinline__ void init(u32 arrivals) const {
    for (int i = 0; i < SLOTS; ++i) barrier_init(full_at(i), 1), barrier_init(empty_at(i), arrivals);
  }
  // `use` numbers what goes through the ring.
  __device__ __forceinline__ void wait_full(u32 use) const { barrier_wait(full_at(use % SLOTS), use / SLOTS & 1); }
  __device__ __forceinline__ void release(u32 slot) const { barrier_arrive(empty_at(slot)); }
};

// The loader's place in a ring.
template <int SLOTS>
struct Cursor {
  u32 slot = 0, phase = 0;
  __device__ __forceinline__ void wait_empty(const Ring<SLOTS>& ring) const {
    barrier_wait(ring.empty_at(slot), phase ^ 1);
  }
  __device__ __forceinline__ void advance() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};

// Warpgroups with tiles of their own take stages in turn: one that waits more than one phase ahead would see the parity
// of an older phase.
template <int GROUPS>
struct Turns {
  u32 barriers;
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < GROUPS; ++i) barrier_init(barriers + 8 * i, 1);
  }
  // For the tile `mine` of this group's.
  __device__ __forceinline__ void wait(int group, int mine) const {
    barrier_wait(barriers + 8 * group, group ? mine & 1 : (mine & 1) ^ 1);
    // The turn is not passed on before all four warps have seen it: one that lags would wait for the next but one.
    sync_warpgroup(group);
  }
  __device__ __forceinline__ void pass(int group) const { barrier_arrive(barriers + 8 * ((group + 1) % GROUPS)); }
};

// The products of a tile from STEPS stages, the first being use `first` of the ring; those of a stage are under way
// while the next one is waited for. `begin(k)` is called when stage k is there, `multiply(k, slot)` for its products.
// Gives the slot of the last stage, whose products may still be under way.
template <int STEPS, int SLOTS, class Begin, class Multiply>
__device__ __forceinline__ u32 multiply_stages(const Ring<SLOTS>& ring, u32 first, const Begin& begin,
                                               const Multiply& multiply) {
  u32 previous = 0;
#pragma unroll 1
  for (int k = 0; k < STEPS; ++k) {
    const u32 use = first + k, slot = use % SLOTS;
    ring.wait_full(use);
    begin(k);
    begin_products();
    multiply(k, slot);
    commit_products();
    if (k > 0) {
      wait_products<1>();
      if ((threadIdx.x & 31) == 0) ring.release(previous);
    }
    previous = slot;
  }
  return previous;
}
