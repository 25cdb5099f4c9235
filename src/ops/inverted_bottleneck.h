// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

/// Internal op InvertedBottleneck: a pointwise convolution that widens, a depthwise one and a pointwise one that
/// narrows, all of channels last, each with bias and activation (the block of MobileNetV2); the first or the last may
/// be absent. Inputs: x, then weights and bias of each of the three convolutions in turn, then what the last one adds,
/// if anything. The attributes of each convolution stand behind its prefix: "expand.activation". ConvPair is the same
/// without the third, where the second may have groups of any size and may add.
namespace tenon::ops {

struct BottleneckPart {
  const char* prefix;
  size_t weights;  // the input; the bias follows
};
inline constexpr BottleneckPart bottleneck_parts[] = {{"expand.", 1}, {"depthwise.", 3}, {"project.", 5}};
inline constexpr size_t bottleneck_residual = 7;
/// Channels that the last of the three makes, at most.
inline constexpr int64_t most_projected = 192;

/// The three convolutions as nodes of their own, with attributes and origins alone.
struct Bottleneck {
  bool has_expansion, has_projection;
  ir::Node parts[3];
  size_t first() const { return has_expansion ? 0 : 1; }
  size_t last() const { return has_projection ? 2 : 1; }
};
Bottleneck bottleneck_of(const ir::Node& node);
/// The convolutions that a node is, one reading the result of the one before: those of one of the two ops above, or
/// itself; none of another node.
struct Convolution {
  ir::Node node;            // attributes and origins alone
  size_t weights, residual;  // inputs of the whole; what is added may be absent
};
std::vector<Convolution> convolutions_of(const ir::Node& node);
/// Its attributes from those of the three convolutions; nullptr for one that is absent.
ir::Attributes bottleneck_attributes(const ir::Node* expand, const ir::Node* depthwise, const ir::Node* project);

}  // namespace tenon::ops
