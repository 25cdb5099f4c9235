// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <algorithm>
#include <cstdint>

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
