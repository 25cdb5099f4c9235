// What the two halves of the depthwise kernel share.
#pragma once

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

struct DepthwisePlan {
  ConvShape shape;
  Epilogue epilogue;
  const float* packed;  // [vector of channels][tap][lane]
  const float* bias;    // padded channels
  int64_t chunk;        // channels of one work item; an item is a chunk of one output row
  int64_t chunks;
};

struct DepthwiseOps {
  int lanes;
  void (*run)(const DepthwisePlan&, const float* in, const float* residual, float* out, const Worker&);
};

namespace portable { extern const DepthwiseOps depthwise_ops; }
namespace avx2 { extern const DepthwiseOps depthwise_ops; }
namespace avx512 { extern const DepthwiseOps depthwise_ops; }

}  // namespace tenon::cpu
