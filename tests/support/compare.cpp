// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "ops/float8.h"
#include "ops/half.h"

namespace tenon::test {
namespace {

template <class T>
double as(const Tensor& tensor, int64_t at) {
  return static_cast<double>(tensor.data<T>()[at]);
}

std::string described(const Tensor& tensor) {
  return std::string(name(tensor.dtype())) + "[" + tensor.dims().str() + "]";
}

std::string at_element(int64_t at, double got, double expected) {
  return "element " + std::to_string(at) + " is " + std::to_string(got) + ", expected " + std::to_string(expected);
}

/// The number of a code among the codes of its type, in the order of their values.
int64_t place(const Tensor& tensor, int64_t at) {
  if (!ops::is_float8(tensor.dtype())) return static_cast<int64_t>(value(tensor, at));
  const int bits = tensor.data<uint8_t>()[at];
  return bits < 128 ? bits : 128 - bits;
}

/// Whether it counts in a mean: a number, and none of the largest, beside which all others vanish.
bool is_ordinary(double x) { return std::abs(x) < 1e18; }

/// The root mean square of the ordinary elements.
double rms_of(const Tensor& tensor) {
  double squares = 0;
  int64_t finite = 0;
  for (int64_t at = 0; at < tensor.elements(); ++at)
    if (const double x = value(tensor, at); is_ordinary(x)) squares += x * x, ++finite;
  return finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
}

/// Integers and 8-bit floats.
std::string difference_in_steps(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  const size_t size = got.elements() == 0 ? 1 : got.bytes() / static_cast<size_t>(got.elements());
  const double near = ops::is_float8(got.dtype()) ? tolerance.element * rms_of(expected) : 0;
  int64_t moved = 0, first = -1;
  for (int64_t at = 0; at < got.elements(); ++at) {
    const size_t offset = static_cast<size_t>(at) * size;
    if (std::memcmp(got.data<std::byte>() + offset, expected.data<std::byte>() + offset, size) == 0) continue;
    const int64_t steps = tolerance.steps == 0 ? 1 : std::abs(place(got, at) - place(expected, at));
    if (steps > tolerance.steps && !(std::abs(value(got, at) - value(expected, at)) <= near))
      return at_element(at, value(got, at), value(expected, at));
    if (steps != 0 && moved++ == 0) first = at;
  }
  const int64_t most =
      std::max<int64_t>(1, static_cast<int64_t>(tolerance.moved * static_cast<double>(got.elements())));
  if (moved == 0 || (tolerance.steps > 0 && moved <= most)) return "";
  return std::to_string(moved) + " of " + std::to_string(got.elements()) + " elements differ, " + std::to_string(most) +
         " may; " + at_element(first, value(got, first), value(expected, first));
}

/// What is expected of a result in `type`: f16 has no number beyond 65504.
double expected_in(DType type, const Tensor& expected, int64_t at) {
  const double x = value(expected, at);
  return type == DType::f16 && std::abs(x) >= 65520 ? std::copysign(INFINITY, x) : x;
}

std::string difference_of_floats(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  const int64_t count = got.elements();
  double squares = 0;
  int64_t finite = 0;
  for (int64_t at = 0; at < count; ++at) {
    const double b = expected_in(got.dtype(), expected, at);
    if (is_ordinary(b)) squares += b * b, ++finite;
  }
  const double rms = finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
  double errors = 0;
  for (int64_t at = 0; at < count; ++at) {
    const double a = value(got, at), b = expected_in(got.dtype(), expected, at);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(b) || !(std::abs(a - b) <= tolerance.element * (rms + std::abs(b)))) return at_element(at, a, b);
    if (is_ordinary(b)) errors += (a - b) * (a - b);
  }
  const double mean = finite == 0 ? 0 : std::sqrt(errors / static_cast<double>(finite));
  if (mean <= tolerance.mean * rms) return "";
  return "the error's root mean square is " + std::to_string(mean) + ", at most " + std::to_string(tolerance.mean) +
         " of the output's " + std::to_string(rms);
}

}  // namespace

double value(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype()) {
    case DType::f32: return as<float>(tensor, at);
    case DType::f64: return as<double>(tensor, at);
    case DType::f16: return ops::f16_value(tensor.data<uint16_t>()[at]);
    case DType::bf16: return ops::bf16_value(tensor.data<uint16_t>()[at]);
    case DType::i8:
    case DType::i4: return as<int8_t>(tensor, at);
    case DType::u8:
    case DType::u4:
    case DType::boolean: return as<uint8_t>(tensor, at);
    case DType::i16: return as<int16_t>(tensor, at);
    case DType::u16: return as<uint16_t>(tensor, at);
    case DType::i32: return as<int32_t>(tensor, at);
    case DType::u32: return as<uint32_t>(tensor, at);
    case DType::i64: return as<int64_t>(tensor, at);
    case DType::u64: return as<uint64_t>(tensor, at);
    default: break;
  }
  if (ops::is_float8(tensor.dtype())) return ops::f8_value(tensor.data<uint8_t>()[at], tensor.dtype());
  throw std::runtime_error("no numbers in a tensor of type " + std::string(name(tensor.dtype())));
}

std::string difference(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  const bool rounded = size_of(got.dtype()) == 2 && is_float(got.dtype()) && expected.dtype() == DType::f32;
  if ((got.dtype() != expected.dtype() && !rounded) || !(got.dims() == expected.dims()))
    return "is " + described(got) + ", expected " + described(expected);
  return is_float(got.dtype()) ? difference_of_floats(got, expected, tolerance)
                               : difference_in_steps(got, expected, tolerance);
}

}  // namespace tenon::test
