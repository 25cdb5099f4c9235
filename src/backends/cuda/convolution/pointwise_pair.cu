// SPDX-License-Identifier: Apache-2.0
// Two pointwise convolutions, one of the other's result, as one kernel that gives both results, on mma.sync (compute
// capability 8.0 and later), channels last: the end of a block of a ResNet and the beginning of the next one. The wide
// result between them is stored but not read again: 64 channels of it at a time are finished in registers, stored, and
// are at once the operand of the second product, whose sums stay in registers. A warp makes its tiles of pixels by
// itself and waits for no other; weights lie in shared memory, and what the warp reads next is on its way there.
// Macros:
//   BYTES 1: bytes (int8.cuh), 0: 16-bit floats; K1, N1, N2: channels of x, of the wide and of the narrow result
//   MI: 16 pixels, so many times a tile; WARPS of a block; DEPTH: steps of 64 wide channels in shared memory, the one
//   that is worked on included
//   STREAM 1: weights of these steps are there as well, not of all, and the warps of a block go step by step together
//   FIRST_ACT, FIRST_RESIDUAL and, of bytes, FIRST_LISTED, FIRST_YZ, FIRST_IN_STEPS as in int8.cuh, the same of
//   SECOND_; STRICT, FP8 0; FIRST_ZEROS, SECOND_ZEROS: there is something that the zero point of the input adds
// Of 64 channels, position h * 32 + q * 8 + i (h: which half, q: lane of four, i < 8) holds channel q * 16 + h * 8 + i
// of bytes and itself of floats, so that a lane's results are neighbours in memory. Row j * 8 + 2 q + e of a half is
// position q * 8 + 2 j + e, which is where mma.sync leaves it. In that order these lie in shared memory and in p.w:
//   [N1][K1] and [N2][N1] weights, each row with 16 bytes behind it for ldmatrix; along N1 those of floats lie in the
//   order of rows, those of bytes such that byte 16 * (i / 4) + 4 q + i % 4 of 32 is of position q * 8 + i;
//   lists by position: bias, and of bytes scale, zeros (where there are any), inverses and scales of the residual
//   (where LISTED), of the first and then of the second;
//   0x4b000000 four times.
// STREAM: for each 64 wide channels [64][K1] of the first and [N2][64] of the second, and behind all of them the lists.
#include "mma.cuh"
#include "pointwise_pair_params.h"
typedef tenon::cuda::PointwisePairParams Params;
using tenon::cuda::Finish;

__device__ __forceinline__ void load_words(u32 (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
// Eight numbers of a list.
__device__ __forceinline__ void load_list(u32 (&v)[8], u32 from) {
  load_words(*(u32(*)[4])&v[0], from), load_words(*(u32(*)[4])&v[4], from + 16);
}
__device__ __forceinline__ void load_list(float (&v)[8], u32 from) {
  u32 words[8];
  load_list(words, from);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = __uint_as_float(words[i]);
}

// The texts of tenon::expr::Relu, tenon::expr::Silu and Exact, which int8.cuh needs, are there as they are named here.
namespace first {
#define ACT FIRST_ACT
#define RESIDUAL FIRST_RESIDUAL
#define LISTED FIRST_LISTED
#define YZ FIRST_YZ
#define IN_STEPS FIRST_IN_STEPS
#define ZEROS FIRST_ZEROS
#define NUMBERS N1
#include "pointwise_finish.cuh"
}  // namespace first
namespace second {
#define ACT SECOND_ACT
#define RESIDUAL 0
#define LISTED SECOND_LISTED
#define YZ SECOND_YZ
#define IN_STEPS SECOND_IN_STEPS
#define ZEROS SECOND_ZEROS
#define NUMBERS N2
#include "pointwise_finish.cuh"
}  // namespace second
typedef first::Sum Sum;

constexpr int E = BYTES ? 1 : 2, ROWS = 16 * MI, THREADS = WARPS * 32, CHUNKS = N1 / 64;
constexpr int X_BYTES = K1 * E, X_ROW = X_BYTES + 16, W2_ROW = (STREAM ? 64 : N1) * E + 16, STEPS = X_BYTES / 32;
// Where x is few operands they stay in registers; then one place of it is enough.
constexpr bool KEEP = STEPS * MI <= 8;
constexpr int X_SLOTS = KEEP ? 1 : 2, SLOT_ROW = 64 * E, SLOT = FIRST_RESIDUAL ? ROWS * SLOT_ROW : 0;
constexpr int W2_AT = (STREAM ? 64 : N1) * X_ROW, RECORD = W2_AT + N2 * W2_ROW;
constexpr int LISTS_FROM = (STREAM ? CHUNKS : 1) * RECORD, LISTS_AT = (STREAM ? DEPTH : 1) * RECORD;
constexpr int LISTS2_AT = LISTS_AT + first::LIST_BYTES, HIGH_AT = LISTS2_AT + second::LIST_BYTES;
constexpr int WEIGHTS = HIGH_AT + 16;  // of all warps
constexpr int OWN = X_SLOTS * ROWS * X_ROW + DEPTH * SLOT;  // of a warp
// A lane's words of results in a half of 64 channels.
constexpr int WORDS = 2 * E;
static_assert(X_BYTES % 32 == 0 && N1 % 64 == 0 && N2 % (BYTES ? 64 : 32) == 0 && WEIGHTS % 16 == 0, "channels");
// The next tile's x comes in the place of this one's, which is read at its first step.
static_assert(DEPTH >= 2 && DEPTH - 1 <= CHUNKS, "depth");

template <int PENDING>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// d = products + c.
__device__ __forceinline__ void multiply(Sum (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const Sum (&c)[4]) {
#if BYTES
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
  multiply_add(d, a, b0, b1, c);
#endif
}
__device__ __forceinline__ void multiply(Sum (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply(d, a, b0, b1, d);
}

// What sums of 32 rows of weights begin with: what the zero point of the input adds.
struct Start {
  Sum of[4][4];
  template <bool ZEROS>
  static __device__ __forceinline__ Start load(u32 zeros) {
    Start start = {};
    u32 list[8] = {};
    if (ZEROS) load_list(list, zeros);
#pragma unroll
    for (int e = 0; e < 16; ++e) start.of[e / 4][e % 4] = (Sum)list[e / 4 * 2 + e % 2];
    return start;
  }
};

__device__ __forceinline__ void store16(u8* to, const u32* words) {
  *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
}

// Whether there is anything to be done: of STREAM for any warp of the block.
__device__ __forceinline__ bool is_there(int tile, const Params& p) {
  return tile - (STREAM ? (int)threadIdx.x >> 5 : 0) < p.tiles;
}

// A warp's next step: a tile, and which 64 wide channels of it.
struct Reader {
  int tile, chunk, slot, left;  // `left`: pixels of the tile and of all behind it
  const u8* from;               // the lane's part of the residual

  // Asks for it, and goes on. What lies behind the last pixel is left as it is: nothing of it is stored.
  __device__ __forceinline__ void read(const Params& p, u32 shared, u32 own, int tiles_apart) {
    constexpr int X_EACH = X_BYTES / 16, EACH = SLOT_ROW / 16;
    const int lane = threadIdx.x & 31, row = lane / EACH, part = lane % EACH;
    if (is_there(tile, p)) {
#pragma unroll
      for (int at = threadIdx.x * 16; STREAM && at < RECORD; at += THREADS * 16)
        copy16(shared + slot * RECORD + at, p.w + chunk * RECORD + at);
      if (chunk == 0) {
        const int pixel = tile * ROWS;
        const u32 to = own + (X_SLOTS == 2 ? tile / tiles_apart % 2 * (ROWS * X_ROW) : 0);
        left = p.pixels - pixel;
#pragma unroll
        for (int at = lane; at < ROWS * X_EACH; at += 32) {
          const int x_row = at / X_EACH, x_part = at % X_EACH;
          if (x_row < left)
            copy16(to + x_row * X_ROW + x_part * 16, p.x + (i64)(pixel + x_row) * p.x_pitch + x_part * 16);
        }
        from = p.residual + (i64)(pixel + row) * p.residual_pitch + part * 16;
      }
      if (FIRST_RESIDUAL) {
        const u32 to = own + X_SLOTS * ROWS * X_ROW + slot * SLOT + row * SLOT_ROW +
                       (BYTES ? part : part ^ (row & 1) << 2) * 16;
#pragma unroll
        for (int i = 0; i < ROWS; i += 32 / EACH)
          if (i + row < left) copy16(to + i * SLOT_ROW, from + (i64)i * p.residual_pitch);
        from += SLOT_ROW;
      }
    }
    commit_copies();
    if (++slot == DEPTH) slot = 0;
    if (++chunk == CHUNKS) chunk = 0, tile += tiles_apart;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    pointwise_pair(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 shared = (u32)__cvta_generic_to_shared(memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
  const int first_tile = STREAM ? blockIdx.x * WARPS + warp : warp * gridDim.x + blockIdx.x;
  const int tiles_apart = gridDim.x * WARPS;

  // Weights come from no kernel before this one.
  for (int at = threadIdx.x * 16 + (STREAM ? LISTS_AT : 0); at < WEIGHTS; at += THREADS * 16)
    copy16(shared + at, p.w + (LISTS_FROM - LISTS_AT) + at);
  commit_copies();
  wait_for_previous(breadcrumb);
  const u32 own = shared + WEIGHTS + warp * OWN;
  Reader reader{first_tile};
#pragma unroll
  for (int k = 0; k < DEPTH - 1; ++k) reader.read(p, shared, own, tiles_apart);
  wait_copies<DEPTH - 1>();
  __syncthreads();

  // Operand rows of x and of both weights; a lane's numbers in the lists.
  const u32 x_rows = own + (lane & 15) * X_ROW + (lane >> 4) * 16;
  const int b_row = (lane & 7) + (lane >> 4 << 3), b_part = (lane >> 3 & 1) * 16;
  const u32 w1_rows = shared + b_row * X_ROW + b_part, w2_rows = shared + W2_AT + b_row * W2_ROW + b_part;
  const u32 lists1 = shared + LISTS_AT + q * 32, lists2 = shared + LISTS2_AT + q * 32;
  const u32 residuals = own + X_SLOTS * ROWS * X_ROW + g * SLOT_ROW;
  u32 high[4];
  load_words(high, shared + HIGH_AT);
  const i64 wide_apart = (i64)8 * p.wide_pitch, narrow_apart = (i64)8 * p.narrow_pitch;
  int next = 0;
  for (int tile = first_tile; is_there(tile, p); tile += tiles_apart) {
    const u32 x_at = x_rows + (X_SLOTS == 2 ? tile / tiles_apart % 2 * (ROWS * X_ROW) : 0);
    const int left = p.pixels - tile * ROWS - g;
    u8* wide = p.wide + (i64)(tile * ROWS + g) * p.wide_pitch + q * 16;
    u32 x[KEEP ? STEPS : 1][MI][4];
    Sum sum2[MI][N2 / 8][4];
#pragma unroll
    for (int n = 0; n < N2 / 32; ++n) {
      const Start start = Start::load<SECOND_ZEROS>(lists2 + second::ZEROS_AT + n * 128);
#pragma unroll
      for (int at = 0; at < MI * 16; ++at) sum2[at / 16][n * 4 + at % 16 / 4][at % 4] = start.of[at % 16 / 4][at % 4];
    }
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      wait_copies<DEPTH - 2>();
      if (STREAM) __syncthreads();
      else __syncwarp();
      const int slot = next;
      if (++next == DEPTH) next = 0;
      if (KEEP && chunk == 0) {
#pragma unroll
        for (int k = 0; k < STEPS; ++k)
#pragma unroll
          for (int i = 0; i < MI; ++i) load4(x[KEEP ? k : 0][i], x_at + i * 16 * X_ROW + k * 32);
        __syncwarp();
      }
      reader.read(p, shared, own, tiles_apart);
      u32 words[MI][2][2 * WORDS], residual[MI][2][4 * E];
#pragma unroll
      for (int i = 0; FIRST_RESIDUAL && i < MI; ++i)
#pragma unroll
        for (int row = 0; row < 2; ++row)
#pragma unroll
          for (int part = 0; part < E; ++part)
            load_words(*(u32(*)[4])&residual[i][row][part * 4],
                       residuals + slot * SLOT + (i * 16 + row * 8) * SLOT_ROW +
                           (BYTES ? q : (part * 4 + q) ^ (g & 1) << 2) * 16);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int position = chunk * 64 + h * 32;
        const u32 w1_at = w1_rows + (STREAM ? slot * RECORD + h * 32 * X_ROW : position * X_ROW);
        const u32 w2_at = w2_rows + (STREAM ? slot * RECORD + h * 32 * E : position * E);
        const Start start = Start::load<FIRST_ZEROS>(lists1 + first::ZEROS_AT + position * 4);
        Sum sum[MI][4][4];
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
          u32 b[2][4];
          load4(b[0], w1_at + k * 32);
          load4(b[1], w1_at + 16 * X_ROW + k * 32);
#pragma unroll
          for (int i = 0; i < MI; ++i) {
            u32(&a)[4] = x[KEEP ? k : 0][i];
            if (!KEEP) load4(a, x_at + i * 16 * X_ROW + k * 32);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const u32 b0 = b[j / 2][j % 2 * 2], b1 = b[j / 2][j % 2 * 2 + 1];
              if (k == 0) multiply(sum[i][j], a, b0, b1, start.of[j]);
              else multiply(sum[i][j], a, b0, b1);
            }
          }
        }
        const first::Eight eight(lists1 + position * 4);
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const auto sum_of = [&](int e) { return sum[i][e / 2][row * 2 + e % 2]; };
            u32* const to = words[i][row] + h * WORDS;
            eight.finish(to, sum_of, residual[i][row] + h * WORDS, high[0], p.first);
            u8* const place = wide + (2 * i + row) * wide_apart;
            if (!BYTES && 16 * i + 8 * row < left) store16(place + h * 64, to);
            if (BYTES && h == 1 && 16 * i + 8 * row < left) store16(place, words[i][row]);
          }
#pragma unroll
        for (int s = 0; s < E; ++s)
#pragma unroll
          for (int n = 0; n < N2 / 16; ++n) {
            u32 b[4];
            load4(b, w2_at + n * 16 * W2_ROW + s * 32);
#pragma unroll
            for (int i = 0; i < MI; ++i) {
              const u32 *low = words[i][0] + h * WORDS + s * 2, *high = words[i][1] + h * WORDS + s * 2;
              const u32 a[4] = {low[0], high[0], low[1], high[1]};
              multiply(sum2[i][2 * n], a, b[0], b[1]);
              multiply(sum2[i][2 * n + 1], a, b[2], b[3]);
            }
          }
      }
      wide += SLOT_ROW;
    }
    u8* const narrow = p.narrow + (i64)(tile * ROWS + g) * p.narrow_pitch + q * 16;
    u32 words[MI][2][2 * WORDS];
#pragma unroll
    for (int n = 0; n < N2 / 32; ++n) {
      const second::Eight eight(lists2 + n * 128);
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const auto sum_of = [&](int e) { return sum2[i][n * 4 + e / 2][row * 2 + e % 2]; };
          u32* const to = words[i][row] + n % 2 * WORDS;
          eight.finish(to, sum_of, nullptr, 0, p.second);
          u8* const place = narrow + (2 * i + row) * narrow_apart;
          if (!BYTES && 16 * i + 8 * row < left) store16(place + n * 64, to);
          if (BYTES && n % 2 == 1 && 16 * i + 8 * row < left) store16(place + n / 2 * 64, words[i][row]);
        }
    }
  }
}
