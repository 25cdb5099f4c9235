// SPDX-License-Identifier: Apache-2.0
// What the two halves of the stem kernel share.
#pragma once

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// First layers: few channels, read straight from NCHW. For one output row the input rows are copied with their zero
// padding, split by column modulo the stride, so that neighbouring output pixels are neighbouring floats for each tap.
struct StemPlan {
  static constexpr int most_by_pixels = 8;

  ConvShape shape;
  Epilogue epilogue;
  const float* packed;  // [block of output channels][kernel row][channel][kernel column][block]
  const float* bias;    // whole blocks
  bool by_pixels;       // lanes are pixels, and all output channels are one block of most_by_pixels
  int64_t image, channel, row;  // floats from one to the next of the input
  int64_t k;            // floats summed per output
  int64_t phase;        // floats of one phase of a row
  int64_t slots;        // input rows kept: the window's height
  int64_t channels;     // of the input that lie in a slice
  int64_t worker_floats;
};

// Over windows of three frames, by F(4, 3) along the frames: four output frames are sums of six products of combined
// frames with combined weights. Rows are kept as those; `packed` is
// [block of output channels][point][kernel row][channel][kernel column][block], `k` the floats summed for a point.
struct FramesStem {
  static constexpr int64_t points = 6, made = 4, taps = 3;
};

struct StemOps {
  int block, tile_pixels;
  using Run = void(const StemPlan&, const float* in, const float* residual, float* out, const Worker&);
  Run *run, *run_frames;
};

namespace portable { extern const StemOps stem_ops; }
namespace fused { extern const StemOps stem_ops; }
namespace avx2 { extern const StemOps stem_ops; }
namespace avx512 { extern const StemOps stem_ops; }

}  // namespace tenon::cpu
