// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/rearrange.h"

namespace tenon::ops {

/// A Frames node as one copy, of all but its zeros; x, y: strides of the input and the output, `dims`: sizes of the
/// output.
Rearrangement frames_copy(const ir::Node& node, const Dims& dims, const Dims& x, const Dims& y);

}  // namespace tenon::ops
