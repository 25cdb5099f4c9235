// SPDX-License-Identifier: Apache-2.0
// Several max pools of one input of channels last with square windows, strides of 1 and padding that keeps the size. A
// block makes whole maps of a few channels in shared memory: maxima of rows first, for all windows at once as each
// holds the smaller ones, then those of columns. Behind larger.cuh. Macros: ELEMENT, H, W, COUNT (windows), WINDOWS
// (their sizes, ascending), VEC (channels of a block).
typedef ELEMENT T;
constexpr int windows[COUNT] = {WINDOWS};
// Words of a pixel: of bytes each half of one holds a byte.
constexpr int WORDS = VEC * (sizeof(T) == 4 ? 4 : 2) / 4, ITEMS = H * W * WORDS;
static_assert(VEC * sizeof(T) % 4 == 0, "whole words");

struct Params {
  const T* x;
  T* y[COUNT];
  i64 xs[3], ys[COUNT][3];  // strides: image, row, pixel
  int groups;               // of channels
};
struct __align__(VEC * sizeof(T)) Vec {
  u32 words[VEC * sizeof(T) / 4];
};

extern "C" __global__ void __launch_bounds__(256)
    max_pools(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(16) u32 memory[];
  u32* rows = memory + ITEMS;  // [COUNT][ITEMS]
  wait_for_previous(breadcrumb);
  const int n = blockIdx.x / p.groups, channel = blockIdx.x % p.groups * VEC;
  const T* image = p.x + n * p.xs[0] + channel;
#pragma unroll 4
  for (int i = threadIdx.x; i < H * W; i += 256) {
    const Vec v = *(const Vec*)(image + i / W * p.xs[1] + i % W * p.xs[2]);
#pragma unroll
    for (int k = 0; k < WORDS; ++k)
      memory[i * WORDS + k] = sizeof(T) > 1 ? v.words[k] : v.words[k / 2] >> (k % 2 * 8) & 0x00ff00ffu;
  }
  __syncthreads();
  // Of a pixel outside the nearest one inside takes the place: it lies in the same windows.
  for (int i = threadIdx.x; i < ITEMS; i += 256) {
    const int k = i % WORDS, column = i / WORDS % W;
    const u32* row = memory + i - k - column * WORDS + k;
    u32 best = memory[i];
    int far = 0;
#pragma unroll
    for (int at = 0; at < COUNT; ++at) {
#pragma unroll
      for (int end = windows[at] / 2; far < end;) {
        ++far;
        best = larger(best, larger(row[max(column - far, 0) * WORDS], row[min(column + far, W - 1) * WORDS]));
      }
      rows[at * ITEMS + i] = best;
    }
  }
  __syncthreads();
#pragma unroll
  for (int at = 0; at < COUNT; ++at) {
    T* to = p.y[at] + n * p.ys[at][0] + channel;
    for (int i = threadIdx.x; i < H * W; i += 256) {
      const int row = i / W;
      const u32* column = rows + at * ITEMS + i % W * WORDS;
      u32 best[WORDS];
#pragma unroll
      for (int k = 0; k < WORDS; ++k) best[k] = column[row * W * WORDS + k];
#pragma unroll
      for (int far = 1; far <= windows[at] / 2; ++far) {
        const u32* above = column + max(row - far, 0) * (W * WORDS);
        const u32* below = column + min(row + far, H - 1) * (W * WORDS);
#pragma unroll
        for (int k = 0; k < WORDS; ++k) best[k] = larger(best[k], larger(above[k], below[k]));
      }
      Vec out;
#pragma unroll
      for (int k = 0; k < VEC * (int)sizeof(T) / 4; ++k)
        out.words[k] = sizeof(T) > 1 ? best[k] : best[2 * k % WORDS] | best[(2 * k + 1) % WORDS] << 8;
      *(Vec*)(to + row * p.ys[at][1] + i % W * p.ys[at][2]) = out;
    }
  }
}
