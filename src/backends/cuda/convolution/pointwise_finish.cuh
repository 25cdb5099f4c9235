// SPDX-License-Identifier: Apache-2.0
// What one of the two convolutions of pointwise_pair.cu does to its sums, in a namespace of its own: on bytes as
// int8.cuh has it. Macros: BYTES, those of int8.cuh, NUMBERS (of each list), ZEROS (there is a list of what the zero
// point of the input adds). They end with it.
#if BYTES
#include "int8.cuh"
constexpr int SCALES_AT = NUMBERS * 4, ZEROS_AT = 2 * SCALES_AT, INVERSES_AT = ZEROS_AT + (ZEROS ? SCALES_AT : 0);
constexpr int R_SCALES_AT = INVERSES_AT + SCALES_AT, LIST_BYTES = INVERSES_AT + (LISTED ? 2 * SCALES_AT : 0);
#else
typedef float Sum;
constexpr int ZEROS_AT = 0, LIST_BYTES = NUMBERS * 4;
#endif

// Of eight positions, whose first number of the first list is at `lists`.
struct Eight {
  float bias[8];
#if BYTES
  float scale[8], inverses[8], r_scales[8];
#endif
  __device__ __forceinline__ explicit Eight(u32 lists) {
    load_list(bias, lists);
#if BYTES
    load_list(scale, lists + SCALES_AT);
    if (LISTED && !IN_STEPS) load_list(inverses, lists + INVERSES_AT);
    if (LISTED && RESIDUAL) load_list(r_scales, lists + R_SCALES_AT);
#endif
  }

  // From `sum(i)` and words of the residual: of bytes two words, else four. `high`: as residual_of() has it.
  template <class Sums>
  __device__ __forceinline__ void finish(u32* words, const Sums& sum, const u32* residual, u32 high,
                                         const Finish& f) const {
#if BYTES
    Steps steps[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Added other =
          RESIDUAL ? residual_of(residual[i / 4], i % 4, r_scale_of(r_scales, i, f), f, high) : Added{};
      steps[i] = steps_of(real_of<true, true>(sum(i), scale[i], bias[i], other, f), inverse_of(inverses, i, f), f);
    }
    words[0] = pack_bytes(steps[0], steps[1], steps[2], steps[3]);
    words[1] = pack_bytes(steps[4], steps[5], steps[6], steps[7]);
#else
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float other = RESIDUAL ? half_of(residual[i / 2], i % 2) : 0.f;
      v[i] = sum(i) + bias[i];
      if (RESIDUAL == 1) v[i] += other;
      v[i] = activate<ACT, true>(v[i], f.alpha, f.beta);
      if (RESIDUAL == 2) v[i] += other;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = pack_halves(v[2 * j], v[2 * j + 1]);
#endif
  }
};
#undef ACT
#undef RESIDUAL
#undef LISTED
#undef YZ
#undef IN_STEPS
#undef ZEROS
#undef NUMBERS
