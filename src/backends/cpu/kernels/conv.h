// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/shape.h"
#include "backends/reason.h"

namespace tenon::cpu {

using backends::Reason;

// Weights as they were given: floats, or what `value` reads.
struct GivenWeights {
  const void* data = nullptr;
  float (*value)(const void* data, int64_t at) = nullptr;
};

// A convolution bound to shape, weights and thread count.
class ConvKernel {
 public:
  virtual ~ConvKernel() = default;
  // The weights before packing, which outlive the kernel: for results that the packed ones cannot give.
  virtual void refer_to(const GivenWeights& weights) { (void)weights; }
  // The kernel for images of other sizes and strides, whose weights are packed alike, as make() would make it. Bias and
  // tables are shared.
  virtual std::unique_ptr<ConvKernel> resized(const ConvShape& shape, int threads) const = 0;
  // Bytes shared by all workers during run().
  virtual size_t workspace_bytes() const = 0;
  // Called by every worker of the thread pool with the same arguments; allocates nothing. The caller puts a barrier
  // after it. The result does not depend on the number of workers, not even in the last bit.
  virtual void run(const float* in, const float* residual, float* out, const Worker& worker) const = 0;
};

// One way to compute a convolution.
struct ConvTactic {
  const char* name;
  Reason (*refuses)(const ConvShape&, const Epilogue&);
  // The packed form depends on the shape and the instruction set alone, never on the thread count.
  size_t (*packed_floats)(const ConvShape&);
  void (*pack)(const ConvShape&, const float* weights, float* packed);
  // `packed` must outlive the kernel; `bias` (out_c floats or null) is copied.
  std::unique_ptr<ConvKernel> (*make)(const ConvShape&, const Epilogue&, const float* packed, const float* bias,
                                      int threads);
  // What beside kernel sizes, channels and groups tells packed forms apart; null: nothing.
  int64_t (*form)(const ConvShape&) = nullptr;
};

std::span<const ConvTactic> conv_tactics(Isa isa);

// c[m][n] = a[m][k] * b[k][n] (+ bias[n]); trans_a / trans_b read a[k][m] / b[n][k]. Row pitches in floats.
struct GemmShape {
  int64_t m, n, k, lda, ldb, ldc;
  bool trans_a, trans_b;
};

size_t gemm_workspace_floats(Isa isa, const GemmShape& shape);

// One thread's product of two variable operands; workspace is 64-byte aligned and private to the call.
void gemm(Isa isa, const GemmShape& shape, const float* a, const float* b, float* c, const float* bias,
          float* workspace);

}  // namespace tenon::cpu
