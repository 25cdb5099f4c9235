// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "backends/kernel.h"

namespace tenon::cpu {

/// Rows (m x k, one behind the other) times a constant matrix (n x k, row-major) plus a constant bias, into rows that
/// begin `pitch` floats apart.
class RowProduct {
 public:
  struct Sizes {
    int64_t m, k, n, pitch;
  };
  virtual ~RowProduct() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual size_t packed_bytes() const = 0;
  /// By all workers together.
  virtual void run(const float* rows, float* out, const Worker& worker) const = 0;
};

/// Null where no kernel takes it.
std::unique_ptr<RowProduct> float_product(const RowProduct::Sizes& sizes, const float* weights,
                                          const std::vector<float>& bias, const backends::Problem& problem);
/// By weights of 8 bits and rows rounded to 16; null where the weights are not of 8 bits, or no instruction is there
/// for them.
std::unique_ptr<RowProduct> byte_product(const RowProduct::Sizes& sizes, const float* weights,
                                         const std::vector<float>& bias, const backends::Problem& problem);

}  // namespace tenon::cpu
