// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/convolution/blocks.h"
#include "backends/cuda/convolution/int8_conv.h"

namespace tenon::cuda {

/// A convolution over blocks of pixels, all of bytes.
struct Int8Blocks : BlockShape {
  Int8Conv conv;

  explicit Int8Blocks(const Problem& from);
  /// [out_c][taps_h][taps_w][channels]
  std::vector<int8_t> weights(const Problem& from) const;

 private:
  explicit Int8Blocks(Int8Conv&& of) : BlockShape(of.shape), conv(std::move(of)) {}
};

/// Why the problem is no such convolution; nullptr where it is.
Reason refuses_int8_blocks(const Problem& problem, ConvShape& shape);

}  // namespace tenon::cuda
