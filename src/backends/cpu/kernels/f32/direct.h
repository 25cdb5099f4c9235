// SPDX-License-Identifier: Apache-2.0
// What the planner half (direct.cpp) and the per-instruction-set half (direct_isa.cpp) of the direct kernel share.
#pragma once

#include "backends/cpu/kernels/f32/windows.h"

namespace tenon::cpu {

// Implicit GEMM.
struct DirectPlan : WindowPlan {
  Epilogue epilogue;
  const float* packed;  // [group][block of output channels][K][block]
  const float* bias;    // [group][whole blocks]
  int pixel_splits, channel_splits;   // workers along each side
  int block_tiles;                    // pixel tiles that pass over all weights together
  int k_together;                     // blocks of K that do before those behind them, for all output channels
  size_t worker_bytes;                // workspace of one worker
};

struct DirectOps {
  int block;        // output channels per weight panel
  int tile_pixels;  // pixels per micro-kernel tile
  size_t (*worker_bytes)(const DirectPlan&);
  void (*run)(const DirectPlan&, const float* in, const float* residual, float* out, const Worker&);
  // One pixel times the whole matrix: x[k], packed panels as above, one group.
  void (*gemv)(const DirectPlan&, const float* in, const float* residual, float* out, const Worker&);
  // The same of panels of f16 and of bf16.
  void (*gemv_f16)(const DirectPlan&, const float* in, const float* residual, float* out, const Worker&);
  void (*gemv_bf16)(const DirectPlan&, const float* in, const float* residual, float* out, const Worker&);
  // c[rows][block] of panel-packed b, plus bias; rows of a and c have pitches in floats.
  void (*gemm_panel)(const float* a, int64_t lda, int64_t m, const float* panel, int64_t k, const float* bias, float* c,
                     int64_t ldc, int columns);
};

namespace portable { extern const DirectOps direct_ops; }
namespace fused { extern const DirectOps direct_ops; }
namespace avx2 { extern const DirectOps direct_ops; }
namespace avx512 { extern const DirectOps direct_ops; }

}  // namespace tenon::cpu
