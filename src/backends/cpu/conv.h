#pragma once
#include "backends/backend.h"
#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

/// Sizes and strides of a rank-4 convolution in NHWC (or of the stem, which reads NCHW) with constant weights in input
/// 1 and a residual in input 3, of any element types; the reason when it is none.
const char* conv_shape_of(const backends::Problem& problem, ConvShape& shape);

}  // namespace tenon::cpu
