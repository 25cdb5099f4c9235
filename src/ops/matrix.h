// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <vector>

#include "ops/dispatch.h"
#include "ops/scalar.h"

namespace tenon::ops {

/// c (m x n) = a (m x k) b (k x n), row-major; a is given as k x m when `transpose_a`, b as n x k when `transpose_b`.
/// Floats are summed in double, integers wrap. Rows of c are summed four at a time over the rows of b.
template <class T, class C>
void multiply(const T* a, bool transpose_a, const T* b, bool transpose_b, C* c, int64_t m, int64_t n, int64_t k) {
  using W = Wide<T>;
  using S = std::conditional_t<std::is_integral_v<W>, W, double>;
  std::vector<T> transposed;
  if (transpose_b) {
    transposed.resize(static_cast<size_t>(k) * static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) transposed[p * n + j] = b[j * k + p];
    b = transposed.data();
  }
  constexpr int64_t block = 4;
  std::vector<S> sums(static_cast<size_t>(block) * static_cast<size_t>(n));
  for (int64_t first = 0; first < m; first += block) {
    const int64_t rows = std::min(block, m - first);
    std::fill(sums.begin(), sums.end(), S(0));
    for (int64_t p = 0; p < k; ++p)
      for (int64_t r = 0; r < rows; ++r) {
        const S by = static_cast<W>(transpose_a ? a[p * m + first + r] : a[(first + r) * k + p]);
        S* sum = sums.data() + r * n;
        const T* row = b + p * n;
        for (int64_t j = 0; j < n; ++j)
          sum[j] = scalar::add(sum[j], scalar::mul(by, static_cast<S>(static_cast<W>(row[j]))));
      }
    for (int64_t at = 0; at < rows * n; ++at)
      c[first * n + at] =
          static_cast<C>(static_cast<std::conditional_t<std::is_same_v<C, double>, double, W>>(sums[at]));
  }
}

}  // namespace tenon::ops
