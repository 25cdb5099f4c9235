// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "ops/float8.h"
#include "ops/half.h"

namespace tenon::cli {

namespace {
std::string place(const Dims& dims, int64_t at) {
  std::string text;
  for (size_t axis = dims.rank(); axis-- > 0;) {
    text = fmt::format("{}{}{}", at % dims[axis], text.empty() ? "" : ",", text);
    at /= dims[axis];
  }
  return "[" + text + "]";
}

template <class T, class Read>
std::string scan(const Tensor& got, const Tensor& expected, double rtol, double atol, Read read) {
  const T* a = got.data<T>();
  const T* b = expected.data<T>();
  int64_t first = -1, wrong = 0;
  for (int64_t at = 0, count = got.elements(); at < count; ++at) {
    if (a[at] == b[at]) continue;
    const double x = read(a[at]), y = read(b[at]);
    if (x == y || (std::isnan(x) && std::isnan(y)) ||
        (std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y)))
      continue;
    if (wrong++ == 0) first = at;
  }
  if (wrong == 0) return "";
  return fmt::format("{} is {:.9g}, expected {:.9g} ({} of {} elements differ)", place(got.dims(), first),
                     read(a[first]), read(b[first]), wrong, got.elements());
}
/// Integers, whose difference is exact.
template <class T>
std::string scan_exactly(const Tensor& got, const Tensor& expected, double atol) {
  const T* a = got.data<T>();
  const T* b = expected.data<T>();
  int64_t first = -1, wrong = 0;
  for (int64_t at = 0, count = got.elements(); at < count; ++at) {
    const uint64_t apart = a[at] < b[at] ? static_cast<uint64_t>(b[at]) - static_cast<uint64_t>(a[at])
                                         : static_cast<uint64_t>(a[at]) - static_cast<uint64_t>(b[at]);
    if (apart != 0 && static_cast<double>(apart) > atol && wrong++ == 0) first = at;
  }
  if (wrong == 0) return "";
  return fmt::format("{} is {}, expected {} ({} of {} elements differ)", place(got.dims(), first), +a[first], +b[first],
                     wrong, got.elements());
}
}  // namespace

std::string difference(const Tensor& got, const Tensor& expected, double rtol, double atol) {
  if (got.dtype() != expected.dtype())
    return fmt::format("type is {}, expected {}", name(got.dtype()), name(expected.dtype()));
  if (got.dtype() == DType::undefined) return "";
  if (got.dtype() == DType::sequence) {
    if (got.sequence().size() != expected.sequence().size())
      return fmt::format("{} tensors in the sequence, expected {}", got.sequence().size(), expected.sequence().size());
    for (size_t at = 0; at < got.sequence().size(); ++at)
      if (std::string why = difference(got.sequence()[at], expected.sequence()[at], rtol, atol); !why.empty())
        return fmt::format("item {}: {}", at, why);
    return "";
  }
  if (!(got.dims() == expected.dims()))
    return fmt::format("sizes are {}, expected {}", got.dims().str(), expected.dims().str());
  const auto number = [](auto value) { return static_cast<double>(value); };
  switch (got.dtype()) {
    case DType::string:
      for (size_t at = 0; at < got.strings().size(); ++at)
        if (got.strings()[at] != expected.strings()[at])
          return fmt::format("{} is \"{}\", expected \"{}\"", place(got.dims(), static_cast<int64_t>(at)),
                             got.strings()[at], expected.strings()[at]);
      return "";
    case DType::f32: return scan<float>(got, expected, rtol, atol, number);
    case DType::f64: return scan<double>(got, expected, rtol, atol, number);
    case DType::f16:
      return scan<uint16_t>(got, expected, rtol, atol, [](uint16_t bits) { return double{ops::f16_value(bits)}; });
    case DType::bf16:
      return scan<uint16_t>(got, expected, rtol, atol, [](uint16_t bits) { return double{ops::bf16_value(bits)}; });
    case DType::i8:
    case DType::i4: return scan_exactly<int8_t>(got, expected, atol);
    case DType::i16: return scan_exactly<int16_t>(got, expected, atol);
    case DType::u16: return scan_exactly<uint16_t>(got, expected, atol);
    case DType::i32: return scan_exactly<int32_t>(got, expected, atol);
    case DType::u32: return scan_exactly<uint32_t>(got, expected, atol);
    case DType::i64: return scan_exactly<int64_t>(got, expected, atol);
    case DType::u64: return scan_exactly<uint64_t>(got, expected, atol);
    case DType::u8:
    case DType::u4: return scan_exactly<uint8_t>(got, expected, atol);
    case DType::boolean: return scan_exactly<uint8_t>(got, expected, 0);
    default: break;
  }
  // NaN of 8-bit floats has several codes.
  const DType type = got.dtype();
  return scan<uint8_t>(got, expected, 0, 0, [type](uint8_t bits) { return double{ops::f8_value(bits, type)}; });
}

}  // namespace tenon::cli
