// SPDX-License-Identifier: Apache-2.0
// Instructions of compute capability 9.0a: barriers in shared memory, bulk tensor copies, wgmma and its operands.
#pragma once
struct __align__(128) TensorMap {
  u64 opaque[16];
};

// Sums of products are int8.cuh's, where that stands before this text.
#if !BYTES
typedef float Sum;
struct Finish {
  float of_bytes[3], alpha, beta;
  int of_bytes_too;
};
#endif

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
  asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L;}" ::"r"(bar),
               "r"(parity)
               : "memory");
}
// Barriers that one thread has made are there for the others, and for the copy engine, once these have met it.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// The four warps of warpgroup `group`, by a hardware barrier of their own.
__device__ __forceinline__ void sync_warpgroup(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}
// Registers of a thread are taken from and given to the whole multiprocessor by warpgroups; 0 leaves them.
template <int REGISTERS>
__device__ __forceinline__ void release_registers() {
  if constexpr (REGISTERS > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void acquire_registers() {
  if constexpr (REGISTERS > 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
__device__ __forceinline__ void wait_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_next_grid() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

__device__ __forceinline__ void copy_16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// A map is known to the copy engine before its first use.
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void load_2d(u32 to, const TensorMap* map, u32 bar, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1)
      : "memory");
}
__device__ __forceinline__ void load_4d(u32 to, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void load_im2col(u32 to, const TensorMap* map, u32 bar, int c, int w, int h, int n, u16 dw,
                                            u16 dh) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], [%2], "
      "{%7, %8};" ::"r"(to),
      "l"(map), "r"(bar), "r"(c), "r"(w), "r"(h), "r"(n), "h"(dw), "h"(dh)
      : "memory");
}
__device__ __forceinline__ void store_2d(const TensorMap* map, u32 from, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(c0), "r"(c1)
               : "memory");
}
__device__ __forceinline__ void store_4d(const TensorMap* map, u32 from, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// What threads have written to shared memory is seen by the copy engine after this.
__device__ __forceinline__ void fence_for_copy_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until the copy engine has read, or written, what all but the last PENDING groups of stores hold.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Products on wgmma run beside the warps: between these two lies a group of them.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the last PENDING groups are done.
template <int PENDING>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// An operand with rows of W bytes, swizzled over W bytes, groups of 8 rows `stride` bytes apart.
template <int W>
__device__ __forceinline__ u64 operand(u32 address, u32 stride) {
  const u64 layout = W == 128 ? 1 : W == 64 ? 2 : 3;
  return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(stride >> 4) << 32 | layout << 62;
}
// What the swizzle adds to the number of a 16-byte chunk.
template <int W>
__device__ __forceinline__ u32 swizzle(u32 row) {
  return W == 128 ? row & 7 : W == 64 ? row >> 1 & 3 : W == 32 ? row >> 2 & 1 : 0;
}

// W = 2, 4, 8 or 16 bytes of neighbouring channels, from and to shared memory and memory.
template <int W>
__device__ __forceinline__ void load_shared(u32 (&r)[4], u32 from) {
  if (W == 2) {
    u16 word;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(word) : "r"(from) : "memory");
    r[0] = word;
  }
  if (W == 4) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r[0]) : "r"(from) : "memory");
  if (W == 8) asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
  if (W == 16)
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}
template <int W>
__device__ __forceinline__ void store_shared(u32 to, const u32 (&r)[4]) {
  if (W == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((u16)r[0]) : "memory");
  if (W == 4) asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(r[0]) : "memory");
  if (W == 8) asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(to), "r"(r[0]), "r"(r[1]) : "memory");
  if (W == 16)
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
template <int W>
__device__ __forceinline__ void load_global(u32 (&r)[4], const u8* from) {
  if (W == 4) r[0] = *(const u32*)from;
  if (W == 8) *(uint2*)r = *(const uint2*)from;
  if (W == 16) *(uint4*)r = *(const uint4*)from;
}
template <int W>
__device__ __forceinline__ void store_global(u8* to, const u32 (&r)[4]) {
  if (W == 4) *(u32*)to = r[0];
  if (W == 8) *(uint2*)to = make_uint2(r[0], r[1]);
  if (W == 16) *(uint4*)to = make_uint4(r[0], r[1], r[2], r[3]);
}
