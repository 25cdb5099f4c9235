// SPDX-License-Identifier: Apache-2.0
// What the planner half (winograd.cpp) and the per-instruction-set half (winograd_isa.cpp) of Winograd share.
#pragma once

#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {

// F(m x m, 3 x 3), m = 2 or 4, or F(2 x 2, 5 x 5), stride 1 (Lavin and Gray, 2016): tile^2 points, each a GEMM over
// channels.
struct WinogradPlan {
  ConvShape shape;
  Epilogue epilogue;
  int m, tile;
  const float* packed;              // [group][block of output channels][point, or tap][depth][block]
  const float* bias;                // [group][whole blocks]
  GivenWeights weights;             // none: data is null
  const float* zeros;               // in_c zeros
  int64_t tiles_h, tiles_w, tiles;  // per image, per image, all images
  int64_t channels;                 // of a slice, padded to whole vectors
  int64_t group_in, group_out;      // channels of a group
  int64_t depth;                    // what a group multiplies of a slice: all channels, padded, or those of a group
  int64_t group_blocks, blocks;     // of a group, of all
  bool by_channels;     // workers share all transformed tiles and split output channels; otherwise they split tiles
  int64_t block_tiles;  // tiles multiplied together
  // Where input channels lie in slices, slice k of an image is the first one of the image k * slice_images behind it,
  // and is transformed once for all: blocks are so many places of so many images.
  int64_t slice_images, block_images, block_places;
  int64_t v_point, m_point;    // floats from point to point of transformed inputs and of products
  int64_t v_floats, m_floats;  // one buffer of each
  int64_t u_floats;            // of the panels of a row of points that a worker transforms; none: all are packed
  int v_buffers;
};

struct WinogradOps {
  int block, lanes, tile_pixels;
  void (*run)(const WinogradPlan&, const float* in, const float* residual, float* out, const Worker&);
};

namespace portable {
extern const WinogradOps winograd_ops;
}
namespace fused {
extern const WinogradOps winograd_ops;
}
namespace avx2 {
extern const WinogradOps winograd_ops;
}
namespace avx512 {
extern const WinogradOps winograd_ops;
}

}  // namespace tenon::cpu
