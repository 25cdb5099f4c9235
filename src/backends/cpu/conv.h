// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/kernel.h"
#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {

/// Sizes and strides of a rank-4 convolution in NHWC (or of the stem, which reads NCHW) with constant weights in input
/// 1 and a residual in input 3, of any element types; the reason when it is none.
backends::Reason conv_shape_of(const backends::Problem& problem, ConvShape& shape);
/// The tactic of that name for the problem's instruction set (isa_for); nullptr when there is none.
const ConvTactic* conv_tactic_named(const backends::Problem& problem, const char* name);

}  // namespace tenon::cpu
