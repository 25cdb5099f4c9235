// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/int8/int8.h"
#include "backends/reason.h"

namespace tenon::backends {
class WeightCache;
}

namespace tenon::cpu {

using backends::Reason;

// A convolution of bytes. Strides of the shape are in elements of each tensor.
struct Int8Conv {
  ConvShape shape;
  Epilogue epilogue;
  const int16_t* weights;   // OIHW, -255..255
  const float* multiplier;  // out_c: input scale times weight scale
  const float* bias;        // out_c, or null
  int32_t in_zero;
  float in_scale = 1;  // of inputs of 16 bits, which are floats: "int16" and "int16_dot" make int16 of them
  int32_t in_low = -UINT8_MAX, in_high = UINT8_MAX;  // the least and the largest input less its zero point
  const float* residual_scale;  // out_c, or null
  int32_t residual_zero;
  const float* inverse_scale;  // of the output, out_c; null: the output is f32
  int32_t out_zero;
  bool sums;                   // the output is i32: exact sums, without all that comes after them
  const Int8Dynamic* dynamic;  // or null: every run reads the scale and zero point of the input there; `multiplier` is
                               // the weights' scale alone and the output f32
  bool zero_last;  // with `dynamic`, where in_zero is 0: the kernel adds up bytes as they are, and the zero point
                   // counts when sums are finished; "int8_dot" and "int8x2" need it
  backends::WeightCache* cache;  // or null: where packed weights are shared,
  const void* constant;          // and the memory that `weights` were taken from
};

class Int8Kernel {
 public:
  virtual ~Int8Kernel() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual size_t packed_bytes() const = 0;
  // As ConvKernel::resized; null where weights are packed otherwise for that.
  virtual std::unique_ptr<Int8Kernel> resized(const ConvShape& shape, int threads) const = 0;
  // As ConvKernel::run. The result depends on neither the instruction set nor the number of workers. `in_zero` is that
  // of the Int8Conv or the dynamic one; only "int8_int16", "int8_tiles", "int8_columns", "int8_quads" and
  // "int8_depthwise" take another.
  virtual void run(const uint8_t* in, int32_t in_zero, const uint8_t* residual, void* out,
                   const Worker& worker) const = 0;
};

// One way to compute it. The weights may be gone after make().
struct Int8Tactic {
  const char* name;
  Reason (*refuses)(const Int8Conv&);
  std::unique_ptr<Int8Kernel> (*make)(const Int8Conv&, Isa isa, int threads);
};

std::span<const Int8Tactic> int8_tactics();

}  // namespace tenon::cpu
