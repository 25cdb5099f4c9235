// SPDX-License-Identifier: Apache-2.0
// What the two halves of the depthwise kernel share.
#pragma once

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

struct DepthwisePlan {
  ConvShape shape;
  Epilogue epilogue;
  const float* packed;  // [vector of output channels][kernel row][input of the group][kernel column][lane]
  const float* bias;    // padded channels
  int group_in;         // input channels of a group
  int64_t vector_in;    // input channels from one vector of output channels to the next
  const int32_t* index;  // [input of the group][lane]: where in the input vector a lane's channel lies; null: in place
  int row_splits, channel_splits;  // their product is the number of workers
  int64_t chunk;                   // channels done at a time
};

struct DepthwiseOps {
  int lanes;
  void (*run)(const DepthwisePlan&, const float* in, const float* residual, float* out, const Worker&);
};

namespace portable { extern const DepthwiseOps depthwise_ops; }
namespace fused { extern const DepthwiseOps depthwise_ops; }
namespace avx2 { extern const DepthwiseOps depthwise_ops; }
namespace avx512 { extern const DepthwiseOps depthwise_ops; }

}  // namespace tenon::cpu
