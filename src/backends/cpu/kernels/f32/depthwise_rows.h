// SPDX-License-Identifier: Apache-2.0
// What the two halves of the depthwise kernel that copies its rows share.
#pragma once

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// Each output channel sees one input channel, of each slice where there are more of them. Rows of a block of channels
// are copied beside each other, with the columns of padding as zeros, and kept until no window sees them.
struct DepthwiseRowsPlan {
  static constexpr int most_rows = 128;  // of a window, in all slices

  ConvShape shape;
  Epilogue epilogue;
  const float* packed;  // [vector of channels][slice][kernel row][kernel column][lane]
  const float* bias;    // padded channels
  int64_t vectors;      // of a block of channels
  int64_t columns;      // of a copied row
  int64_t held;         // rows of each frame that are kept
  // Images that are computed together, as their slices lie in the same frames: those that they see, floats from one to
  // the next, and frames from an image, and from a slice, to the next.
  int64_t images, frames, frame, image_frames, slice_frames;
  int row_splits, channel_splits;  // their product is the number of workers
  size_t worker_bytes;
};

struct DepthwiseRowsOps {
  int lanes;
  int64_t (*computed)(int64_t width);  // pixels of a row of so many, those behind its end, too
  void (*run)(const DepthwiseRowsPlan&, const float* in, const float* residual, float* out, const Worker&);
};

namespace portable {
extern const DepthwiseRowsOps depthwise_rows_ops;
}
namespace fused {
extern const DepthwiseRowsOps depthwise_rows_ops;
}
namespace avx2 {
extern const DepthwiseRowsOps depthwise_rows_ops;
}
namespace avx512 {
extern const DepthwiseRowsOps depthwise_rows_ops;
}

}  // namespace tenon::cpu
