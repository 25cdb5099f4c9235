// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/kernel.h"
#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {

/// What the node of a convolution says, of one over frames, too, read once for all sizes.
struct ConvNode {
  enum class Padding : uint8_t { given, none, same_upper, same_lower };
  explicit ConvNode(const ir::Node& node);
  bool in_nhwc, in_nchw;  // channels last; but for the input, which the stem reads
  Padding padding;
  int64_t strides[2], dilations[2], pads[2], groups;  // pads before both axes
  Epilogue epilogue;                                  // whose slopes are the node's
  int64_t slopes;                                     // how many
  // Over frames: output frames of a volume, frames that each sees, and what lies between those and between the first
  // ones of two; count is 0 where it is none. `sizes` are those of an image that it sees. Frames of zeros lie before
  // and behind those of the volume. `apart`: an output channel sees one channel of each frame, whose taps are inputs of
  // their own.
  int64_t frames = 0, count = 0, step = 1, stride = 1, before = 0, behind = 0;
  bool apart = false;
  std::shared_ptr<const ir::Node> part;  // the node's part that the slopes are of
  std::vector<int64_t> sizes;
  std::vector<int64_t> perm;  // of channels last, in a planar input

 private:
  void read(const ir::Node& node);
};

/// What it is given; null: absent.
struct ConvOperands {
  const backends::Operand &x, &weights;
  const backends::Operand *bias, *residual;
  const backends::Operand& y;
};
/// Those of a node with constant weights in input 1 and a residual in input 3.
ConvOperands conv_operands(const backends::Problem& problem);

/// A convolution of so many volumes, one behind the other; without frames all is one. Distances are in floats.
struct ConvVolumes {
  int64_t count = 1, in = 0, out = 0, residual = 0;
};
ConvVolumes volumes_of(const ConvNode& node, const ConvOperands& operands);

/// Sizes and strides of a convolution of rank 4, or of one volume of frames, in NHWC (or of the stem, which reads NCHW)
/// with constant weights, of any element types; the reason when it is none.
backends::Reason conv_shape_of(const ConvNode& node, const ConvOperands& operands, ConvShape& shape);
backends::Reason conv_shape_of(const backends::Problem& problem, ConvShape& shape);
/// The tactic of that name for the problem's instruction set (isa_for); nullptr when there is none.
const ConvTactic* conv_tactic_named(const backends::Problem& problem, const char* name);
/// Constant weights for ConvKernel::refer_to; the tensor outlives what is given.
GivenWeights given_weights(const Tensor& weights);
/// Whether a tactic packs weights for both alike.
bool packs_alike(const ConvTactic& tactic, const ConvShape& a, const ConvShape& b);

}  // namespace tenon::cpu
