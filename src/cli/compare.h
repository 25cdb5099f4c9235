// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <string>

namespace tenon::cli {

/// "" where `got` is `expected` within |got - expected| <= atol + rtol |expected| (NumPy's assert_allclose: equal
/// infinities and NaNs agree), else the first difference in words. Type and sizes must be equal. Integers are at most
/// `atol` apart, whatever their size; strings, booleans and 8-bit floats are equal.
std::string difference(const Tensor& got, const Tensor& expected, double rtol, double atol);

}  // namespace tenon::cli
