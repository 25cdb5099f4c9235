// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"

namespace tenon::ops {

/// DepthToSpace or SpaceToDepth as a copy over six axes, the last of which are neighbours in the output.
struct Rearrangement {
  Dims dims, from, to;  // strides in elements
};

/// x, y: strides of the input and the output; `dims`: the input's sizes, which its blocks divide. Channels lie second,
/// or last where the node's layout is NHWC.
Rearrangement rearrangement(const ir::Node& node, const Dims& dims, const Dims& x, const Dims& y);

}  // namespace tenon::ops
