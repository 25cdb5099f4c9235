// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/int8_steps.h"

/// Constant INT8 weights in other forms.
namespace tenon::passes {

/// Bytes less their zero points, one or one for each entry of `axis`: i8 where that fits, else i16.
inline Tensor centred(const Tensor& bytes, const Tensor* zeros, size_t axis) {
  const auto byte = [](const Tensor& from, int64_t at) {
    return from.dtype() == DType::u8 ? int16_t{from.data<uint8_t>()[at]} : int16_t{from.data<int8_t>()[at]};
  };
  int64_t inner = 1;
  for (size_t behind = axis + 1; behind < bytes.dims().rank(); ++behind) inner *= bytes.dims()[behind];
  Tensor wide(DType::i16, bytes.dims());
  const auto numbers = wide.data<int16_t>();
  for (int64_t at = 0; at < wide.elements(); ++at) {
    numbers[at] = byte(bytes, at);
    if (zeros) numbers[at] -= byte(*zeros, zeros->elements() == 1 ? 0 : at / inner % zeros->elements());
  }
  if (std::any_of(numbers, numbers + wide.elements(), [](int16_t one) { return one < INT8_MIN || one > INT8_MAX; }))
    return wide;
  Tensor narrow(DType::i8, bytes.dims());
  std::copy_n(numbers, wide.elements(), narrow.data<int8_t>());
  return narrow;
}

/// Whether the sums of each window times inputs from `low` to `high` stay within 32 bits.
inline bool hold_sums(const Tensor& windows, int64_t low, int64_t high) {
  const int64_t rows = windows.dims()[0], k = rows > 0 ? windows.elements() / rows : 0;
  std::vector<int16_t> row(static_cast<size_t>(k));
  for (int64_t at = 0; at < rows; ++at) {
    if (windows.dtype() == DType::i8) std::copy_n(windows.data<int8_t>() + at * k, k, row.data());
    else std::copy_n(windows.data<int16_t>() + at * k, k, row.data());
    if (!ops::holds_sums(row, low, high)) return false;
  }
  return true;
}

/// A matrix of [k][n] weights as n windows of one pixel.
inline Tensor by_rows(const Tensor& given) {
  const int64_t k = given.dims()[0], n = given.dims()[1], size = static_cast<int64_t>(size_of(given.dtype()));
  Tensor rows(given.dtype(), {n, k, 1, 1});
  const auto *from = given.data<std::byte>();
  auto* const to = rows.data<std::byte>();
  for (int64_t row = 0; row < n; ++row)
    for (int64_t at = 0; at < k; ++at) std::copy_n(from + (at * n + row) * size, size, to + (row * k + at) * size);
  return rows;
}

}  // namespace tenon::passes
