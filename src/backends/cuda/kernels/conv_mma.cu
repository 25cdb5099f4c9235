// Convolution as implicit GEMM on mma.sync (compute capability 8.0 and later). Channels last, whole 16-byte chunks of
// channels. Macros:
//   DT 1 f16, 2 f32 rounded to tf32, 3 bytes (behind bytes.cuh, the residual too), 4 f32 as sums of two tf32 numbers,
//   22 bits of mantissa, by three products ("3xTF32" of CUTLASS); TY type of the output, and of
//   the residual; ACT, RESIDUAL; VECTOR 1: stores of 8 channels
//   COPY bytes a copy: 16, or less where channels are no whole chunks; FILL 1: taps outside read as p.fill
//   BM pixels x BN channels a block, WM x WN a warp; STAGES of 128 bytes of depth
//   POINT 1: one tap without padding; SPLIT 1: blocks share a tile along depth, the last one adds their sums in order
// Weights: [group][channel, padded to BN][depth, padded to 128 bytes], position n of 32 holding channel
// n % 8 / 2 * 8 + n / 8 * 2 + n % 2, so that a thread owns 8 neighbouring channels of a row.
constexpr int ROW = 128, THREADS = (BM / WM) * (BN / WN) * 32;
constexpr int E = DT == 3 ? 16 : DT == 1 ? 8 : 4;  // elements of a chunk
constexpr int A_BYTES = BM * ROW, STAGE = (BM + BN) * ROW;
constexpr int A_LOADS = BM * 8 / THREADS, B_LOADS = BN * 8 / THREADS, LANES = THREADS / 8;
constexpr int MI = WM / 16, NJ = WN / 8;
static_assert(WN % 32 == 0 && BM * 8 % THREADS == 0 && BN * 8 % THREADS == 0, "tile");
#if DT == 1
typedef narrow X;
#elif DT == 2 || DT == 4
typedef float X;
#else
typedef u8 X;
#endif
#if DT == 3
typedef u8 Other;
#else
typedef float Sum;
typedef TY Other;
struct Finish {
  float of_bytes[3], alpha, beta;
  int of_bytes_too;
};
struct Lists {
  const float* bias;
  const void* of_bytes[4];
};
#endif
struct __align__(16) Sums {
  Sum e[4];
};

struct Params {
  const X *x, *w;
  Lists lists;
  const Other* residual;
  TY* y;
  Sum* partial;
  u32* counters;
  i64 xs[3], ys[3], rs[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, chunks, steps, tiles_n, groups, splits;
  int c_real;  // c_in is padded to whole chunks
  u32 fill;
  Finish finish;
};

__device__ __forceinline__ void copy16(u32 to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Of `left` elements that are there, the others being zeros.
__device__ __forceinline__ void copy_some(u32 to, const X* from, int left) {
#pragma unroll
  for (int at = 0; at < 16; at += COPY) {
    const int bytes = at / (int)sizeof(X) < left ? COPY : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to + at),
                 "l"((const u8*)from + (bytes ? at : 0)), "r"(bytes), "n"(COPY)
                 : "memory");
  }
}
__device__ __forceinline__ void load4(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}
#if DT == 3
#if FP8
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
__device__ __forceinline__ void multiply(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
#else
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if DT == 1
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NARROW_NAME "." NARROW_NAME ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#if DT == 4
__device__ __forceinline__ u32 tf32_of(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
// x becomes what tf32 has of it, and the rest.
__device__ __forceinline__ void divide(u32 (&x)[4], u32 (&rest)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float whole = __uint_as_float(x[e]);
    x[e] = tf32_of(whole);
    rest[e] = tf32_of(whole - __uint_as_float(x[e]));
  }
}
#endif

// ---- eight neighbouring channels of one pixel
__device__ __forceinline__ void load8(float (&v)[8], const narrow* from) {
  const uint4 u = *(const uint4*)from;
  const u32 w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = half_of(w[i / 2], i % 2);
}
__device__ __forceinline__ void load8(float (&v)[8], const float* from) {
  *(float4*)&v[0] = ((const float4*)from)[0], *(float4*)&v[4] = ((const float4*)from)[1];
}
__device__ __forceinline__ void store8(narrow* to, const float (&v)[8]) {
  *(uint4*)to =
      make_uint4(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
}
__device__ __forceinline__ void store8(float* to, const float (&v)[8]) {
  ((float4*)to)[0] = *(const float4*)&v[0], ((float4*)to)[1] = *(const float4*)&v[4];
}

template <class T> __device__ __forceinline__ void store(T* to, const float (&v)[8], int left, int, const Params&) {
  if (VECTOR) store8(to, v);
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) to[e] = of_f32<T>(v[e]);
}
#if DT == 3
__device__ __forceinline__ void store(u8* to, const float (&v)[8], int left, int channel, const Params& p) {
  Steps q[8];
#pragma unroll
  for (int e = 0; e < 8; ++e)
    q[e] = VECTOR || e < left ? steps_of(v[e], inverse_of(p.lists.inverses, channel + e, p.finish), p.finish) : 0;
  const u32 words[2] = {pack_bytes(q[0], q[1], q[2], q[3]), pack_bytes(q[4], q[5], q[6], q[7])};
  if (VECTOR) *(uint2*)to = *(const uint2*)words;
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) to[e] = (u8)(words[e / 4] >> (8 * (e % 4)));
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) conv_mma(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 shared = (u32)__cvta_generic_to_shared(memory);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int columns = p.tiles_n * p.groups, column = blockIdx.x % columns, group = column / p.tiles_n;
  const int n0 = column % p.tiles_n * BN, m0 = blockIdx.x / columns * BM;
  const int begin = SPLIT ? blockIdx.y * p.steps / p.splits : 0;
  const int end = SPLIT ? (blockIdx.y + 1) * p.steps / p.splits : p.steps;

  // A thread copies chunk `chunk` of rows row + LANES * i.
  const int chunk = tid & 7, row = tid >> 3;
  const X* rows[A_LOADS];
  int h0[A_LOADS], w0[A_LOADS];
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i) {
    const int m = m0 + row + LANES * i, q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
    h0[i] = m < p.pixels ? r * p.stride_h - p.pad_top : -(1 << 28);
    w0[i] = q * p.stride_w - p.pad_left;
    rows[i] = p.x + n * p.xs[0] + group * p.c_real;
    if (POINT) rows[i] += h0[i] * p.xs[1] + w0[i] * p.xs[2];
  }
  int at = begin * 8 + chunk, c, r = 0, s = 0;
  if (POINT) {
    c = at * E;
  } else {
    const int per_tap = p.c_in / E, tap = at / per_tap;
    c = at % per_tap * E, r = tap / p.kernel_w, s = tap % p.kernel_w;
  }
  const u8* weights =
      (const u8*)p.w + ((i64)(column / p.tiles_n * p.tiles_n * BN + n0 + row) * p.steps + begin) * ROW + chunk * 16;
  const i64 weight_rows = (i64)LANES * p.steps * ROW;
  const u32 to = row * ROW + ((chunk ^ (row & 7)) << 4);

  const auto load_weights = [&](int step, int slot) {
#pragma unroll
    for (int i = 0; i < B_LOADS; ++i)
      copy16(shared + slot * STAGE + A_BYTES + to + i * LANES * ROW,
             weights + i * weight_rows + (i64)(step - begin) * ROW, true);
  };
  const auto load_pixels = [&](int slot) {
#pragma unroll
    for (int i = 0; i < A_LOADS; ++i) {
      const int h = h0[i] + r * p.dilation_h, w = w0[i] + s * p.dilation_w;
      const bool valid = at < p.chunks && (POINT ? h0[i] >= 0 : (u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w);
      const X* from = POINT ? rows[i] + c : rows[i] + h * p.xs[1] + w * p.xs[2] + c;
      const u32 place = shared + slot * STAGE + to + i * LANES * ROW;
      if (FILL && !valid)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(place), "r"(p.fill) : "memory");
      else if (COPY == 16) copy16(place, valid ? from : p.x, valid);
      else copy_some(place, valid ? from : p.x, valid ? p.c_real - c : 0);
    }
    at += 8, c += 8 * E;
    if (!POINT)
      while (c >= p.c_in) {
        c -= p.c_in;
        if (++s == p.kernel_w) s = 0, ++r;
      }
  };

  // Weights come from no kernel before this one.
#pragma unroll
  for (int k = 0; k < STAGES - 1; ++k)
    if (begin + k < end) load_weights(begin + k, k);
  wait_for_previous(trail);
#pragma unroll
  for (int k = 0; k < STAGES - 1; ++k) {
    if (begin + k < end) load_pixels(k);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  const int wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
  const int a_row = wm + (lane & 15), a_chunk = lane >> 4;
  const int b_row = wn + (lane & 7) + (lane >> 4 << 3), b_chunk = lane >> 3 & 1;
  Sum sum[MI][NJ][4] = {};
  for (int step = begin; step < end; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    const int slot = (step - begin) % STAGES, next = step + STAGES - 1;
    if (next < end) {
      load_weights(next, (next - begin) % STAGES);
      load_pixels((next - begin) % STAGES);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const u32 base = shared + slot * STAGE;
#if DT == 4
    // Tensor cores cut what a sum cannot hold: only the products of one step are added there.
    Sum part[MI][NJ][4] = {};
#endif
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      u32 a[MI][4], b[NJ / 2][4];
#pragma unroll
      for (int i = 0; i < MI; ++i) {
        load4(a[i], base + (a_row + 16 * i) * ROW + (((2 * k + a_chunk) ^ (a_row & 7)) << 4));
#if DT == 2
#pragma unroll
        for (int e = 0; e < 4; ++e) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a[i][e]) : "f"(__uint_as_float(a[i][e])));
#endif
      }
#pragma unroll
      for (int j = 0; j < NJ / 2; ++j)
        load4(b[j], base + A_BYTES + (b_row + 16 * j) * ROW + (((2 * k + b_chunk) ^ (b_row & 7)) << 4));
#if DT == 4
      u32 a_rest[MI][4], b_rest[NJ / 2][4];
#pragma unroll
      for (int i = 0; i < MI; ++i) divide(a[i], a_rest[i]);
#pragma unroll
      for (int j = 0; j < NJ / 2; ++j) divide(b[j], b_rest[j]);
      // The smallest first, each in all sums before the next, which would wait for it.
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j) multiply(part[i][j], a_rest[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j)
          multiply(part[i][j], a[i], b_rest[j / 2][j % 2 * 2], b_rest[j / 2][j % 2 * 2 + 1]);
      auto& sums = part;
#else
      auto& sums = sum;
#endif
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j) multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
#if DT == 4
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j][e] += part[i][j][e];
#endif
  }

#if SPLIT
  {
    __shared__ bool last;
    Sum* tile = p.partial + ((i64)blockIdx.x * p.splits) * BM * BN;
    Sums* own = (Sums*)(tile + (i64)blockIdx.y * BM * BN);
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j) own[(i * NJ + j) * THREADS + tid] = *(Sums*)sum[i][j];
    __threadfence();
    __syncthreads();
    if (tid == 0) last = atomicAdd(p.counters + blockIdx.x, 1) == p.splits - 1;
    __syncthreads();
    if (!last) return;
    if (tid == 0) p.counters[blockIdx.x] = 0;
    __threadfence();
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NJ; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j][e] = 0;
    for (int k = 0; k < p.splits; ++k) {
      const Sums* from = (const Sums*)(tile + (i64)k * BM * BN);
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NJ; ++j) {
          Sums v;
          u32* bits = (u32*)v.e;
          asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                       : "l"(from + (i * NJ + j) * THREADS + tid));
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][j][e] += v.e[e];
        }
    }
  }
#endif

#pragma unroll
  for (int g = 0; g < NJ / 4; ++g) {
    const int local = n0 + wn + g * 32 + (lane & 3) * 8;  // first channel of the group's own
    if (local >= p.c_out) continue;
    const int channel = group * p.c_out + local;
    float bias[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) bias[e] = local + e < p.c_out ? p.lists.bias[channel + e] : 0.f;
#if DT == 3
    float scale[8];
    int zeros[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const bool there = local + e < p.c_out;
      scale[e] = there ? p.lists.scale[channel + e] : 0.f, zeros[e] = there ? p.lists.zero_sums[channel + e] : 0;
    }
#endif
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int half_row = 0; half_row < 2; ++half_row) {
        const int m = m0 + wm + 16 * i + 8 * half_row + (lane >> 2);
        if (m >= p.pixels) continue;
        const int q = m % p.out_w, rr = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
        TY* out = p.y + n * p.ys[0] + rr * p.ys[1] + q * p.ys[2] + channel;
        const Other* other = p.residual + n * p.rs[0] + rr * p.rs[1] + q * p.rs[2] + channel;
        float v[8], residual[8] = {};
#if DT == 3
        if (RESIDUAL) {
          u32 words[2] = {};
          if (VECTOR) *(uint2*)words = *(const uint2*)other;
          else
            for (int e = 0; e < 8; ++e)
              if (local + e < p.c_out) words[e / 4] |= (u32)other[e] << (8 * (e % 4));
#pragma unroll
          for (int e = 0; e < 8; ++e)
            if (VECTOR || local + e < p.c_out)
              residual[e] =
                  residual_of(words[e / 4], e % 4, r_scale_of(p.lists.r_scales, channel + e, p.finish), p.finish);
        }
#pragma unroll
        for (int e = 0; e < 8; ++e)
          v[e] = real_of<sizeof(TY) < 4, sizeof(TY) == 1>(sum[i][g * 4 + e / 2][half_row * 2 + e % 2] + zeros[e],
                                                          scale[e], bias[e], residual[e], p.finish);
#else
        if (RESIDUAL && VECTOR) load8(residual, other);
        if (RESIDUAL && !VECTOR)
#pragma unroll
          for (int e = 0; e < 8; ++e)
            if (local + e < p.c_out) residual[e] = f32_of(other[e]);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          v[e] = sum[i][g * 4 + e / 2][half_row * 2 + e % 2] + bias[e];
          if (RESIDUAL == 1) v[e] += residual[e];
          v[e] = activate<ACT, sizeof(TY) == 2>(v[e], p.finish.alpha, p.finish.beta);
          if (RESIDUAL == 2) v[e] += residual[e];
        }
#endif
        store(out, v, p.c_out - local, channel, p);
      }
  }
}
