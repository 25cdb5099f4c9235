#pragma once
#include "backends/cuda/byte_conv.h"

namespace tenon::cuda {

/// A convolution of few channels with stride B as one of stride 1 over blocks of B x B pixels, all of bytes: tap i of
/// the kernel lies in block floor((i - pad) / B).
struct ByteBlocks {
  ByteConv conv;
  int64_t block, channels, height, width;  // of the block tensor
  int64_t pad_top, pad_left, taps_h, taps_w;

  explicit ByteBlocks(const Problem& from);
  /// [out_c][taps_h][taps_w][channels]
  std::vector<int8_t> weights(const Problem& from) const;
};

/// Why the problem is no such convolution; nullptr where it is.
const char* refuses_byte_blocks(const Problem& problem, ConvShape& shape);

}  // namespace tenon::cuda
