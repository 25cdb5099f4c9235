// SPDX-License-Identifier: Apache-2.0
// What the convolutions on wgmma do to a sum of products before it is stored, of bytes (behind int8.cuh) and of 16-bit
// floats alike; results have OB bytes: 1 of bytes, 2 of 16-bit floats, 4 of f32 from these. ODD 1: pixels of the result
// (no bytes) lie at no multiples of 16 bytes, or channels are no whole ones: they are stored one by one.
#pragma once
#include "hopper.cuh"

constexpr bool ADDS = ZP == 1 || ZP == 2, EDGES = ZP >= 2;
// Lists by channel: the bias; of bytes the scale and, where it adds, what the zero point adds; the inverses of LISTED,
// and behind them the scales of its residual.
constexpr int INVERSES = ADDS ? 3 : 2, NUMBERS = BYTES ? INVERSES + (LISTED ? RESIDUAL ? 2 : 1 : 0) : 1;
// What borders add is kept in shared memory up to these sizes: lists of channels, and rows, then columns.
constexpr int SUM_CLASSES = 9, PLACES = EDGES ? 512 : 0;

// What borders add to the sums of a block's channels: by class of a pixel's row and column, 0 where nothing is missing.
struct Borders {
  const u8 *rows, *columns;
  const int* sums;
  int pitch;  // from class to class
};
// Asks for copies of the borders' lists by THREADS threads, to be waited for: in shared memory at `sums`, where there
// `is_room`, of OWN channels from `channel` on of the PITCH that a class has; at `places` rows and columns.
template <int OWN, int PITCH, int THREADS, class Params>
__device__ __forceinline__ Borders keep_borders(const Params& p, const u8* memory, u32 base, int channel, bool is_room,
                                                int sums, int places) {
  const bool keeps_places = max(p.out_h, p.out_w) <= PLACES / 2, keeps_sums = is_room && p.classes <= SUM_CLASSES;
  const int tid = threadIdx.x;
  if (keeps_sums)
    for (int i = tid; i < p.classes * (OWN / 4); i += THREADS)
      if (const int at = channel + i % (OWN / 4) * 4; PITCH % OWN == 0 || at < PITCH)
        copy_16(base + sums + i * 16, p.border_sums + i / (OWN / 4) * PITCH + at);
  if (keeps_places) {
    if (tid < (p.out_h + 15) / 16) copy_16(base + places + tid * 16, p.border_rows + tid * 16);
    if (tid < (p.out_w + 15) / 16) copy_16(base + places + PLACES / 2 + tid * 16, p.border_columns + tid * 16);
  }
  return {keeps_places ? memory + places : p.border_rows,
          keeps_places ? memory + places + PLACES / 2 : p.border_columns,
          keeps_sums ? (const int*)(memory + sums) : p.border_sums + channel, keeps_sums ? OWN : PITCH};
}

#if BYTES
// Channel k of words of a residual.
__device__ __forceinline__ Added residual_at(const u32* words, int k, const float* scales, int channel,
                                             const Finish& finish) {
  return RESIDUAL ? residual_of(words[k / 4], k % 4, r_scale_of(scales, channel, finish), finish) : Added{};
}
__device__ __forceinline__ float result_of(Sum sum, float scale, float bias, Added residual, const Finish& finish) {
  return real_of<true, OB == 1>(sum, scale, bias, residual, finish);
}
#else
__device__ __forceinline__ float residual_at(const u32* words, int k, const float*, int, const Finish&) {
  return OB == 4 ? __uint_as_float(words[k]) : half_of(words[k / 2], k % 2);
}
__device__ __forceinline__ float result_of(Sum sum, float, float bias, float residual, const Finish& finish) {
  float v = sum + bias;
  if (RESIDUAL == 1) v += residual;
  v = activate<ACT, OB != 4>(v, finish.alpha, finish.beta);
  if (RESIDUAL == 2) v += residual;
  return v;
}
#endif
// Results of N neighbouring channels as words; `channel(k)` is the place of the k-th in the list of inverses.
template <int N, class Channel>
__device__ __forceinline__ void pack_results(u32* words, const float* v, const float* inverses, const Channel& channel,
                                             const Finish& finish) {
#if BYTES && OB == 1
  const auto steps = [&](int k) { return steps_of(v[k], inverse_of(inverses, channel(k), finish), finish); };
  if constexpr (N == 2) words[0] = pack_bytes(steps(0), steps(1), 0, 0);
  else
#pragma unroll
    for (int k = 0; k < N; k += 4) words[k / 4] = pack_bytes(steps(k), steps(k + 1), steps(k + 2), steps(k + 3));
#elif OB == 4
#pragma unroll
  for (int k = 0; k < N; ++k) words[k] = __float_as_uint(v[k]);
#else
#pragma unroll
  for (int k = 0; k < N / 2; ++k) words[k] = pack_halves(v[2 * k], v[2 * k + 1]);
#endif
}
// Channel k of results as words, by itself.
__device__ __forceinline__ void store_one(u8* to, const u32* words, int k) {
#if OB == 4
  *(u32*)to = words[k];
#else
  *(u16*)to = (u16)(words[k / 2] >> 16 * (k % 2));
#endif
}
