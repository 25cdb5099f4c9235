#pragma once
#include "backends/cuda/convolution.h"

namespace tenon::cuda {

/// A convolution of few channels with stride B as one of stride 1 over blocks of B x B pixels: tap i of the kernel lies
/// in block floor((i - pad) / B).
struct Blocks {
  ConvShape shape{};
  int64_t block, channels, height, width;  // of the block tensor
  int64_t pad_top, pad_left, taps_h, taps_w;
  ir::Node node;
  Problem problem;

  explicit Blocks(const Problem& from);
  Blocks(const Blocks&) = delete;
  /// The problem over blocks of the output's type; its node lives here.
  void make_problem(const Problem& from);
  size_t bytes() const { return static_cast<size_t>(shape.batch * height * width * channels) * size_of(shape.y_type); }
};

/// Whether a convolution may be done so: the reason why not, or nullptr.
const char* refuses_blocks(const Problem& problem, ConvShape& shape);

}  // namespace tenon::cuda
