// SPDX-License-Identifier: Apache-2.0
// What a depthwise convolution on the plain arithmetic units is given, channels last. ELEMENT, TY: types.
#include "depthwise_params.h"
typedef tenon::cuda::DepthwiseParams Params;
