// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda {

/// A convolution of few channels with stride B as one of stride 1 over blocks of B x B pixels: tap i of the kernel lies
/// in block floor((i - pad) / B).
struct BlockShape {
  ConvShape shape;                         // of the convolution over pixels
  int64_t block, channels, height, width;  // of the block tensor
  int64_t pad_top, pad_left, taps_h, taps_w;

  explicit BlockShape(const ConvShape& shape);
  /// Where a weight of [out_c][kernel_h][kernel_w][in_c] goes: the output, the tap over blocks and the channel there.
  struct Place {
    int64_t n, tap_h, tap_w, channel;
  };
  /// In the order of those weights.
  std::vector<Place> places() const;
};

/// The same as a problem of floats.
struct Blocks : BlockShape {
  ir::Node node;
  Problem problem;

  explicit Blocks(const Problem& from);
  Blocks(const Blocks&) = delete;
  /// The problem over blocks of the output's type; its node lives here.
  void make_problem(const Problem& from);
  size_t bytes() const { return static_cast<size_t>(shape.batch * height * width * channels) * size_of(shape.y_type); }
};

/// Why a convolution of any types may not be done so, in blocks of so many channels; nullptr: it may.
Reason refuses_blocks(const Problem& problem, const ConvShape& shape, int64_t most_channels);
/// The same for one of floats.
Reason refuses_blocks(const Problem& problem, ConvShape& shape);

}  // namespace tenon::cuda
