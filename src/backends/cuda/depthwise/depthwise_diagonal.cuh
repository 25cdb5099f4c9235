// SPDX-License-Identifier: Apache-2.0
// Parameters of depthwise convolutions by diagonal matrices; stands behind diagonal.cuh.
#include "depthwise_diagonal_params.h"
typedef tenon::cuda::DepthwiseDiagonalParams Params;
