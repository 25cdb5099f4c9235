// SPDX-License-Identifier: Apache-2.0
// What the planner half (strassen.cpp) and the per-instruction-set half (strassen_isa.cpp) of products by seven share.
#pragma once

#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {

// Products of large matrices as seven of half the rows, columns and sums each, in the form of Winograd (Strassen, 1969;
// Winograd, 1971: 15 sums). Rows are taken in chunks, whose halves are its halves; sums in parts of K; columns in pairs
// of blocks, one of either half. Sums of inputs and of weights are made on the way, so that weights lie as the direct
// kernel packs them.
// What is mixed has errors of the larger one's size, and zeros would not stay zeros: pairs of rows, of a row's halves
// or of columns, whose largest magnitudes are more than kMostUnlike apart are multiplied plainly, with all that is in
// their chunk and part, or pair of blocks.
constexpr float kMostUnlike = 8;

struct StrassenPlan {
  Epilogue epilogue;
  const float* packed;  // [block of output channels][k][block]
  const float* bias;    // [whole blocks]
  const float* zeros;   // k of them
  // [pair of blocks]: whether its columns are of unlike size.
  const uint8_t* unlike;
  int64_t rows, k, n;
  int64_t in_pitch, out_pitch, res_pitch;  // floats from a row to the next
  int64_t chunks, parts;                   // of rows, of k
  int64_t depth;                           // of a part but for the last one, a multiple of 8
  int row_splits, channel_splits;          // workers along each side
  size_t worker_bytes;                     // workspace of one worker
};

struct StrassenOps {
  int block;  // output channels per weight panel
  size_t (*worker_bytes)(const StrassenPlan&);
  void (*run)(const StrassenPlan&, const float* in, const float* residual, float* out, const Worker&);
};

namespace portable {
extern const StrassenOps strassen_ops;
}
namespace fused {
extern const StrassenOps strassen_ops;
}
namespace avx2 {
extern const StrassenOps strassen_ops;
}
namespace avx512 {
extern const StrassenOps strassen_ops;
}

}  // namespace tenon::cpu
