// Convolution for few pixels (compute capability 9.0a): a tile of 64 pixels x BN channels for each cluster of
// SPLIT blocks, which share its depth. Everything a block multiplies is asked for at once, weights before the grid
// before has ended; sums go straight from registers into the shared memory of the block that owns the rows, and are
// added there in a fixed order. Macros: IM2COL, BN, SPLIT (1, 2, 4, 8), KB bytes of depth in a row of a slab, KR, KS,
// CIN, COUT, STRIDE, PAD_H, PAD_W, ACT, RESIDUAL, and BYTES, EB, OB, ZP as conv_wgmma.cu has them. Position n of 16
// weights holds channel n % 8 / 2 * 4 + n / 8 * 2 + n % 2. hopper.cuh and Mma<BN> stand before this text.
constexpr int KE = KB / EB, NK = KR * KS * CIN * EB / KB, SLABS = CIN * EB / KB, NT = (COUT + BN - 1) / BN;
constexpr int ROWS = (COUT + 15) / 16 * 16;  // of lists by channel
constexpr int MOST = (NK + SPLIT - 1) / SPLIT, A_BYTES = 64 * KB, STAGE = A_BYTES + BN * KB;
constexpr int PIECE = BN / 16 * 512;  // sums of 8 rows
constexpr int OWN = 8 / SPLIT;        // pieces of a block
constexpr bool EDGES = ZP >= 2;
// Of lists by channel and of what borders add, a block keeps those of its tile.
constexpr int INVERSES = ZP == 1 || ZP == 2 ? 3 : 2;  // the list of LISTED; that of the residual's scales follows
constexpr int NUMBERS = BYTES ? INVERSES + (LISTED ? RESIDUAL ? 2 : 1 : 0) : 1;
constexpr int SUM_CLASSES = 9, PLACES = EDGES ? 512 : 0;
constexpr int AT_SUMS = (STAGES * STAGE + 1023) / 1024 * 1024, AT_LISTS = AT_SUMS + 8 * PIECE,
              AT_EDGES = AT_LISTS + BN * 4 * NUMBERS, AT_PLACES = AT_EDGES + (EDGES ? BN * 4 * SUM_CLASSES : 0),
              AT_BARRIERS = AT_PLACES + PLACES;
static_assert(CIN * EB % KB == 0 && NK >= SPLIT, "depth");

struct Params {
  TensorMap a, b;
  const float* numbers;  // by channel: bias, scale, what the zero point adds, inverses, scales of the residual
  u8* to;
  const u8* other;
  const int* border_sums;  // [class][channel]
  const u8 *border_rows, *border_columns;
  i64 to_pitch, other_pitch;  // bytes from pixel to pixel
  int pixels, out_h, out_w, classes;
  Finish finish;
};

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(128)
    conv_cluster(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), full = base + AT_BARRIERS, empty = full + 8 * STAGES,
            sums_full = empty + 8 * STAGES;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, q = lane & 3;
  const int rank = blockIdx.x % SPLIT, tile = blockIdx.x / SPLIT, nt = tile % NT, mt = tile / NT;
  const int k0 = rank * NK / SPLIT, k1 = (rank + 1) * NK / SPLIT;
  const int count = k1 - k0, m0 = mt * 64, r0 = m0 % (p.out_h * p.out_w), n0 = m0 / (p.out_h * p.out_w);
  const int h0 = r0 / p.out_w * STRIDE - PAD_H, w0 = r0 % p.out_w * STRIDE - PAD_W;
  const auto load_weights = [&](int k) {
    load_2d(base + k % STAGES * STAGE + A_BYTES, &p.b, full + 8 * (k % STAGES), (k0 + k) * KE, nt * BN);
  };
  const auto load_pixels = [&](int k) {
    const u32 to = base + k % STAGES * STAGE, bar = full + 8 * (k % STAGES);
    const int tap = (k0 + k) / SLABS, c = (k0 + k) % SLABS * KE;
    if (IM2COL) load_im2col(to, &p.a, bar, c, w0, h0, n0, tap % KS, tap / KS);
    else load_2d(to, &p.a, bar, c, m0);
  };
  if (tid == 32) prefetch_map(&p.a);
  if (tid == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(full + 8 * i, 1), barrier_init(empty + 8 * i, 4);
    if (SPLIT > 1) barrier_init(sums_full, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (SPLIT > 1) barrier_expect(sums_full, 8 * PIECE);
    for (int k = 0; k < count && k < STAGES; ++k) {
      barrier_expect(full + 8 * k, STAGE);
      load_weights(k);
    }
    wait_previous_grid();
    launch_next_grid();
    for (int k = 0; k < count && k < STAGES; ++k) load_pixels(k);
    leave(trail);
  }
  for (int i = tid; i < BN / 4 * NUMBERS; i += 128)
    if (const int at = nt * BN + i % (BN / 4) * 4; at < ROWS)
      copy_16(base + AT_LISTS + i * 16, p.numbers + i / (BN / 4) * ROWS + at);
#if ZP >= 2
  const bool keeps_places = max(p.out_h, p.out_w) <= PLACES / 2, keeps_sums = p.classes <= SUM_CLASSES;
  if (keeps_sums)
    for (int i = tid; i < p.classes * (BN / 4); i += 128)
      if (const int at = nt * BN + i % (BN / 4) * 4; at < ROWS)
        copy_16(base + AT_EDGES + i * 16, p.border_sums + i / (BN / 4) * ROWS + at);
  if (keeps_places) {
    if (tid < (p.out_h + 15) / 16) copy_16(base + AT_PLACES + tid * 16, p.border_rows + tid * 16);
    if (tid < (p.out_w + 15) / 16) copy_16(base + AT_PLACES + PLACES / 2 + tid * 16, p.border_columns + tid * 16);
  }
  const u8* border_rows = keeps_places ? memory + AT_PLACES : p.border_rows;
  const u8* border_columns = keeps_places ? memory + AT_PLACES + PLACES / 2 : p.border_columns;
  const int* border_sums = keeps_sums ? (const int*)(memory + AT_EDGES) : p.border_sums + nt * BN;
  const int sums_pitch = keeps_sums ? BN : ROWS;
#endif
  __syncthreads();
  if (SPLIT > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  Sum sum[BN / 2];
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    const u32 slot = base + k % STAGES * STAGE;
    barrier_wait(full + 8 * (k % STAGES), k / STAGES & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int kk = 0; kk < KB / 32; ++kk)
      Mma<BN>::run(sum, operand<KB>(slot + kk * 32, 8 * KB), operand<KB>(slot + A_BYTES + kk * 32, 8 * KB), k + kk);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (MOST > STAGES && k > 0) {  // the slab before has been read: its place is for another
      const int done = k - 1, next = done + STAGES;
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (lane == 0) barrier_arrive(empty + 8 * (done % STAGES));
      if (tid == 0 && next < count) {
        barrier_wait(empty + 8 * (done % STAGES), done / STAGES & 1);
        barrier_expect(full + 8 * (done % STAGES), STAGE);
        load_weights(next);
        load_pixels(next);
      }
      __syncwarp();
    }
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  wait_previous_grid();
  if (SPLIT > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#if SPLIT == 1
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int j = 0; j < BN / 16; ++j)
      *(uint4*)(memory + AT_SUMS + (2 * warp + h) * PIECE + j * 512 + lane * 16) =
          make_uint4(*(u32*)&sum[j * 8 + h * 2], *(u32*)&sum[j * 8 + h * 2 + 1], *(u32*)&sum[j * 8 + 4 + h * 2],
                     *(u32*)&sum[j * 8 + 5 + h * 2]);
  __syncthreads();
#else
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // piece 2 * warp + h goes to its owner
    const int piece = 2 * warp + h, owner = piece / OWN;
    const u32 at = base + AT_SUMS + (rank * OWN + piece % OWN) * PIECE + lane * 16;
    u32 to, bar;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(owner));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(sums_full), "r"(owner));
#pragma unroll
    for (int j = 0; j < BN / 16; ++j)
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(to + j * 512),
          "r"(*(u32*)&sum[j * 8 + h * 2]), "r"(*(u32*)&sum[j * 8 + h * 2 + 1]),
          "r"(*(u32*)&sum[j * 8 + 4 + h * 2]), "r"(*(u32*)&sum[j * 8 + 5 + h * 2]), "r"(bar)
          : "memory");
  }
  asm volatile(
      "{.reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @!p bra L;}" ::"r"(
          sums_full)
      : "memory");
#endif
#pragma unroll
  for (int unit = warp; unit < BN / 16 * OWN; unit += 4) {
    const int j = unit % (BN / 16), own = unit / (BN / 16), piece = rank * OWN + own;
    const int m = mt * 64 + piece * 8 + (lane >> 2), channel = nt * BN + j * 16 + q * 4;
    if (m >= p.pixels || channel >= COUT) continue;
    Sum s[4] = {};
#pragma unroll
    for (int r = 0; r < SPLIT; ++r) {
      const uint4 v = *(const uint4*)(memory + AT_SUMS + (r * OWN + own) * PIECE + j * 512 + lane * 16);
      s[0] += *(Sum*)&v.x, s[1] += *(Sum*)&v.y, s[2] += *(Sum*)&v.z, s[3] += *(Sum*)&v.w;
    }
    const float* numbers = (const float*)(memory + AT_LISTS) + j * 16 + q * 4;
    const float4 bias4 = *(const float4*)numbers;
    const float bias[4] = {bias4.x, bias4.y, bias4.z, bias4.w};
    u32 other[4] = {};
    if (RESIDUAL) load_global<4 * OB>(other, p.other + (i64)m * p.other_pitch + channel * OB);
    float f[4];
#if BYTES
    const float4 scale4 = *(const float4*)(numbers + BN);
    const float scale[4] = {scale4.x, scale4.y, scale4.z, scale4.w};
#if ZP == 1 || ZP == 2
    const int4 zeros = *(const int4*)(numbers + 2 * BN);
    s[0] += zeros.x, s[1] += zeros.y, s[2] += zeros.z, s[3] += zeros.w;
#endif
#if ZP >= 2
    const u32 place = (u32)m % (u32)(p.out_h * p.out_w);
    const int edge = border_rows[place / (u32)p.out_w] + border_columns[place % (u32)p.out_w];
    if (edge) {
      const int4 more = *(const int4*)(border_sums + edge * sums_pitch + j * 16 + q * 4);
      s[0] += more.x, s[1] += more.y, s[2] += more.z, s[3] += more.w;
    }
#endif
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float r =
          RESIDUAL ? residual_of(other[0], e, r_scale_of(numbers + (INVERSES + 1) * BN, e, p.finish), p.finish) : 0.f;
      f[e] = real_of<true, OB == 1>(s[e], scale[e], bias[e], r, p.finish);
    }
#else
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float r = half_of(other[e / 2], e % 2);
      f[e] = s[e] + bias[e];
      if (RESIDUAL == 1) f[e] += r;
      f[e] = activate<ACT, true>(f[e], p.finish.alpha, p.finish.beta);
      if (RESIDUAL == 2) f[e] += r;
    }
#endif
    u32 o[4];
#if BYTES && OB == 1
    const float* inverses = numbers + INVERSES * BN;
    const auto steps = [&](int e) { return steps_of(f[e], inverse_of(inverses, e, p.finish), p.finish); };
    o[0] = pack_bytes(steps(0), steps(1), steps(2), steps(3));
#else
    o[0] = pack_halves(f[0], f[1]), o[1] = pack_halves(f[2], f[3]);
#endif
    store_global<4 * OB>(p.to + (i64)m * p.to_pitch + channel * OB, o);
  }
}
// For the host: bytes of shared memory.
extern "C" __device__ const int meta[1] = {AT_BARRIERS + 16 * STAGES + 8};
