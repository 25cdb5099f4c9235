// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

/// Rounding that makes up for its errors, after Frantar et al., GPTQ: Accurate Post-Training Quantization for
/// Generative Pre-trained Transformers, 2022: what rounding one weight adds to a layer's results is taken away by the
/// weights behind it that are still to be rounded, as the inverse of the inputs' products says.
namespace tenon::quant {

/// Columns of a layer's inputs whose weights make up for each other.
struct ColumnPiece {
  int64_t begin, count;
  std::vector<float> products;  ///< [count][count], sums over rows of data of x x', lower half; later the factor
};

/// The products of what a layer reads.
class InputProducts {
 public:
  /// Of `columns` inputs; pieces are whole blocks, but for the last.
  InputProducts(int64_t columns, int64_t block);
  static int64_t bytes(int64_t columns, int64_t block);
  /// Rows that are worth to be taken in.
  int64_t wanted() const;
  /// Adds `count` rows of so many columns.
  void add(const float* rows, int64_t count, ThreadPool& thread_pool);
  /// Turns sums into factors U, upper triangular, with U' U the inverse of the damped products. Called once, after
  /// which nothing can be added.
  void factorise(ThreadPool& thread_pool);
  int64_t rows() const { return rows_; }
  const std::vector<ColumnPiece>& pieces() const { return pieces_; }

 private:
  int64_t columns_, rows_ = 0;
  std::vector<ColumnPiece> pieces_;
};

}  // namespace tenon::quant
