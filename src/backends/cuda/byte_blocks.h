// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/blocks.h"
#include "backends/cuda/byte_conv.h"

namespace tenon::cuda {

/// A convolution over blocks of pixels, all of bytes.
struct ByteBlocks : BlockShape {
  ByteConv conv;

  explicit ByteBlocks(const Problem& from);
  /// [out_c][taps_h][taps_w][channels]
  std::vector<int8_t> weights(const Problem& from) const;

 private:
  explicit ByteBlocks(ByteConv&& of) : BlockShape(of.shape), conv(std::move(of)) {}
};

/// Why the problem is no such convolution; nullptr where it is.
Reason refuses_byte_blocks(const Problem& problem, ConvShape& shape);

}  // namespace tenon::cuda
