// SPDX-License-Identifier: Apache-2.0
#include <locale.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "ops/dispatch.h"
#include "ops/float8.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::cast {
namespace {

template <class T>
std::string to_text(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "1" : "0";
  else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
    }
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
    return std::string(buffer, end.ptr);
  }
}

/// A number from text; the whole text must be one, apart from blanks around it.
template <class T>
T from_text(Evaluation& ctx, const std::string& text) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const size_t first = std::min(text.find_first_not_of(" \t+"), text.size());
    T value{};
    const auto [end, error] = std::from_chars(text.data() + first, text.data() + text.size(), value);
    if (error == std::errc() &&
        text.find_first_not_of(" \t", static_cast<size_t>(end - text.data())) == std::string::npos)
      return value;
  }
  char* end = nullptr;
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const double value = strtod_l(text.c_str(), &end, plain);
  while (*end == ' ' || *end == '\t') ++end;
  if (end == text.c_str() || *end) ctx.fail("\"" + text.substr(0, 40) + "\" is not a number");
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  else return scalar::convert<T>(value);
}

/// float8 elements as f32, 4-bit ones as 8-bit integers.
Tensor as_f32(const Tensor& x) {
  Tensor wide(is_float8(x.dtype()) ? DType::f32 : x.dtype() == DType::u4 ? DType::u8 : DType::i8, x.dims());
  const int64_t count = x.elements();
  const uint8_t* from = x.data<uint8_t>();
  for (int64_t i = 0; i < count; ++i)
    if (is_float8(x.dtype())) wide.data<float>()[i] = f8_value(from[i], x.dtype());
    else wide.data<uint8_t>()[i] = from[i];
  return wide;
}

/// Integers wrap into a narrower type; reals are cut towards zero and held in range, of 32 bits for the 4-bit types,
/// into which they wrap.
template <class O, class S>
O convert(S value) {
  if constexpr (std::is_same_v<O, Half> || std::is_same_v<O, BFloat>) return O(static_cast<float>(value));
  else return scalar::convert<O>(value);
}

void cast(Evaluation& ctx, const Tensor& source, DType to) {
  const bool saturate = ctx.node().integer("saturate", 1);
  const DType from = source.dtype();
  if (from == to) return ctx.set(0, source);
  const Tensor x = is_float8(from) || from == DType::u4 || from == DType::i4 ? as_f32(source) : source;
  const int64_t count = x.elements();
  Tensor& out = ctx.output(0, to, x.dims());
  dispatch<NumbersAndString>(ctx, x.dtype(), [&]<class S>(Type<S>) {
    const S* in = elements_of<S>(x);
    const auto each = [&](auto&& store) {
      for (int64_t i = 0; i < count; ++i)
        if constexpr (std::is_same_v<S, Bool>) store(i, static_cast<bool>(in[i]));
        else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat>) store(i, static_cast<float>(in[i]));
        else store(i, in[i]);
    };
    const auto number = [&]<class O, class V>(Type<O>, const V& value) {
      if constexpr (std::is_same_v<V, std::string>) {
        if constexpr (std::is_same_v<O, Bool>) return O(from_text<bool>(ctx, value));
        else return static_cast<O>(from_text<Wide<O>>(ctx, value));
      } else return convert<O>(value);
    };
    if (is_float8(to)) {
      uint8_t* bytes = out.data<uint8_t>();
      each([&](int64_t i, const auto& value) { bytes[i] = f8_bits(number(Type<float>{}, value), to, saturate); });
    } else if (to == DType::u4 || to == DType::i4) {
      int8_t* bytes = out.data<int8_t>();
      each([&](int64_t i, const auto& value) {
        const auto whole = static_cast<uint32_t>(number(Type<int32_t>{}, value)) & 15;
        bytes[i] =
            static_cast<int8_t>(to == DType::i4 && whole > 7 ? static_cast<int>(whole) - 16 : static_cast<int>(whole));
      });
    } else if (to == DType::string) {
      each([&](int64_t i, const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::string>) out.strings()[i] = to_text(value);
      });
    } else {
      dispatch<NumbersAndBool>(ctx, to, [&]<class O>(Type<O>) {
        O* result = out.data<O>();
        each([&](int64_t i, const auto& value) { result[i] = number(Type<O>{}, value); });
      });
    }
  });
}

DType target(const auto& ctx) {
  const int64_t to = ctx.node().integer("to", 0);
  if (to <= 0 || to > static_cast<int64_t>(DType::i4) || name(static_cast<DType>(to)) == "undefined")
    ctx.fail("element type " + std::to_string(to) + " is not known");
  return static_cast<DType>(to);
}

void infer_to(Inference& ctx, DType to) {
  ctx.set(0, to, known_shape(ctx, 0));
  const bool exact =
      (to == DType::i64 || to == DType::i32) && (is_integer(ctx.dtype(0)) || ctx.dtype(0) == DType::boolean);
  if (exact) pass_content(ctx);
}

void infer_cast(Inference& ctx) { infer_to(ctx, target(ctx)); }
void infer_cast_like(Inference& ctx) { infer_to(ctx, ctx.dtype(1)); }
void evaluate_cast(Evaluation& ctx) { cast(ctx, ctx.input(0), target(ctx)); }
void evaluate_cast_like(Evaluation& ctx) { cast(ctx, ctx.input(0), ctx.input(1).dtype()); }

TENON_OP("Cast", 1, 1, 1, 1, infer_cast, evaluate_cast,
         {attr::text("round_mode").one_of({"up", "down", "nearest"}).from(24), attr::flag("saturate").from(19),
          attr::text("to").up_to(5).required(), attr::element_type("to").from(6).required()},
         Trait::elementwise | Trait::converts | Trait::same_rank);
TENON_OP("CastLike", 2, 2, 1, 1, infer_cast_like, evaluate_cast_like,
         {attr::text("round_mode").one_of({"up", "down", "nearest"}).from(24), attr::flag("saturate").from(19)},
         Trait::elementwise | Trait::converts);

}  // namespace
}  // namespace tenon::ops::cast
