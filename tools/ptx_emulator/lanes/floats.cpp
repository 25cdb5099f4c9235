// SPDX-License-Identifier: Apache-2.0
// Arithmetic of floats: f32, f64, and f16 and bf16 by themselves or two in a word.
#include <cstring>
#include <type_traits>

#include "rounding.h"
#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

/// Numbers of 16 bits count as floats, whose products are exact and whose sums are rounded twice to the same.
struct F16 {
  uint16_t bits;
  operator float() const { return f16_value(bits); }
  static F16 of(float x) { return {f16_bits(x)}; }
};
struct Bf16 {
  uint16_t bits;
  operator float() const { return bf16_value(bits); }
  static Bf16 of(float x) { return {bf16_bits(x)}; }
};

/// What a lane has: COUNT numbers of T, which are computed as C.
template <class T, class C, int COUNT>
struct Form {
  using Number = T;
  using Computed = C;
  static constexpr int count = COUNT;
};
using F32 = Form<float, float, 1>;
using F64 = Form<double, double, 1>;

template <class T, class C>
T stored(C x) {
  if constexpr (std::is_same_v<T, C>) return x;
  else return T::of(x);
}

inline float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; }
inline double flushed(double x) { return x; }

/// Flags of an operation beside its kind.
template <bool FTZ, bool SAT>
struct With {
  template <class C>
  static C in(C x) {
    return FTZ ? flushed(x) : x;
  }
  template <class C>
  static C out(C x) {
    if (FTZ) x = flushed(x);
    if (SAT) x = x > C{0} ? (x < C{1} ? x : C{1}) : C{0};
    return x;
  }
};

template <class F, class Op, class W, int ARITY>
void run(Warp& w, const Instruction& i) {
  using T = typename F::Number;
  using C = typename F::Computed;
  T* d = w.lanes<T>(i.at[0]);
  const T* a = w.lanes<T>(i.at[1]);
  const T* b = ARITY > 1 ? w.lanes<T>(i.at[2]) : a;
  const T* c = ARITY > 2 ? w.lanes<T>(i.at[3]) : a;
  const auto work = [&](int l) {
    if constexpr (ARITY == 1) d[l] = stored<T, C>(W::out(Op::of(W::in(C(a[l])))));
    if constexpr (ARITY == 2) d[l] = stored<T, C>(W::out(Op::of(W::in(C(a[l])), W::in(C(b[l])))));
    if constexpr (ARITY == 3) d[l] = stored<T, C>(W::out(Op::of(W::in(C(a[l])), W::in(C(b[l])), W::in(C(c[l])))));
  };
  if (F::count == 1) {
    for_lanes(lanes_for_results(w), work);
    return;
  }
  for_lanes(lanes_for_results(w), [&](int l) { work(2 * l), work(2 * l + 1); });
}

struct Add {
  template <class C>
  static C of(C a, C b) {
    return a + b;
  }
};
struct Subtract {
  template <class C>
  static C of(C a, C b) {
    return a - b;
  }
};
struct Multiply {
  template <class C>
  static C of(C a, C b) {
    return a * b;
  }
};
struct Divide {
  template <class C>
  static C of(C a, C b) {
    return a / b;
  }
};
/// 0 where the divisor is so large that its inverse is not a usual number.
struct DivideFast {
  static float of(float a, float b) {
    return std::abs(b) > 0x1p126f && std::isfinite(b)
               ? (std::isinf(a) ? NAN : std::copysign(0.f, a) * std::copysign(1.f, b))
               : a / b;
  }
};
struct Fused {
  static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double of(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
/// Of numbers of 16 bits, rounded once.
struct FusedFloat16 {
  static float of(float a, float b, float c) { return odd_sum(a * b, c); }
};
struct FusedRelu {
  static float of(float a, float b, float c) {
    const float x = odd_sum(a * b, c);
    return x > 0 || x != x ? x : 0.f;
  }
};
template <Rounding R>
struct FusedTo {
  static float of(float a, float b, float c) { return f32_of(odd_sum(double{a} * double{b}, double{c}), R); }
};
template <Rounding R>
struct AddTo {
  static float of(float a, float b) { return f32_of(odd_sum(double{a}, double{b}), R); }
};
template <Rounding R>
struct SubtractTo {
  static float of(float a, float b) { return AddTo<R>::of(a, -b); }
};
template <Rounding R>
struct MultiplyTo {
  static float of(float a, float b) { return f32_of(double{a} * double{b}, R); }
};

template <class C>
bool before(C a, C b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
template <bool NANS>
struct Min {
  template <class C>
  static C of(C a, C b) {
    const C number = a != a ? b : b != b ? a : before(b, a) ? b : a;
    return NANS && (a != a || b != b) ? std::numeric_limits<C>::quiet_NaN() : number;
  }
};
template <bool NANS>
struct Max {
  template <class C>
  static C of(C a, C b) {
    const C number = a != a ? b : b != b ? a : before(a, b) ? b : a;
    return NANS && (a != a || b != b) ? std::numeric_limits<C>::quiet_NaN() : number;
  }
};
struct Copysign {
  template <class C>
  static C of(C a, C b) {
    return std::copysign(b, a);
  }
};
struct Negate {
  template <class C>
  static C of(C a) {
    return -a;
  }
};
struct Abs {
  template <class C>
  static C of(C a) {
    return std::abs(a);
  }
};
struct Inverse {
  template <class C>
  static C of(C a) {
    return C{1} / a;
  }
};
struct Root {
  template <class C>
  static C of(C a) {
    return std::sqrt(a);
  }
};
struct InverseRoot {
  template <class C>
  static C of(C a) {
    return static_cast<C>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct Sine {
  template <class C>
  static C of(C a) {
    return std::sin(a);
  }
};
struct Cosine {
  template <class C>
  static C of(C a) {
    return std::cos(a);
  }
};
struct Log2 {
  template <class C>
  static C of(C a) {
    return std::log2(a);
  }
};
struct Exp2 {
  template <class C>
  static C of(C a) {
    return std::exp2(a);
  }
};
struct Tanh {
  template <class C>
  static C of(C a) {
    return std::tanh(a);
  }
};

template <class F, class Op, int ARITY>
Run with_flags(const Words& words) {
  const bool ftz = has(words, "ftz"), sat = has(words, "sat");
  if constexpr (std::is_same_v<F, F32>) {
    if (ftz) return sat ? run<F, Op, With<true, true>, ARITY> : run<F, Op, With<true, false>, ARITY>;
  }
  return sat ? run<F, Op, With<false, true>, ARITY> : run<F, Op, With<false, false>, ARITY>;
}

/// Those that all forms have.
template <class F>
Run common(const Words& words) {
  const std::string& op = words[0];
  const bool nans = has(words, "NaN");
  if (op == "neg") return with_flags<F, Negate, 1>(words);
  if (op == "abs") return with_flags<F, Abs, 1>(words);
  if (op == "add") return with_flags<F, Add, 2>(words);
  if (op == "sub") return with_flags<F, Subtract, 2>(words);
  if (op == "mul") return with_flags<F, Multiply, 2>(words);
  if (op == "min") return nans ? with_flags<F, Min<true>, 2>(words) : with_flags<F, Min<false>, 2>(words);
  if (op == "max") return nans ? with_flags<F, Max<true>, 2>(words) : with_flags<F, Max<false>, 2>(words);
  return nullptr;
}

template <class F>
Run narrow(const Words& words) {
  const std::string& op = words[0];
  if (op == "fma")
    return has(words, "relu") ? with_flags<F, FusedRelu, 3>(words) : with_flags<F, FusedFloat16, 3>(words);
  if (op == "ex2") return with_flags<F, Exp2, 1>(words);
  if (op == "tanh") return with_flags<F, Tanh, 1>(words);
  return common<F>(words);
}

template <class F>
Run wide(const Words& words) {
  const std::string& op = words[0];
  if (op == "fma" || op == "mad") return with_flags<F, Fused, 3>(words);
  if (op == "copysign") return with_flags<F, Copysign, 2>(words);
  if (op == "rcp") return with_flags<F, Inverse, 1>(words);
  if (op == "sqrt") return with_flags<F, Root, 1>(words);
  if (op == "rsqrt") return with_flags<F, InverseRoot, 1>(words);
  if (op == "div") {
    if constexpr (std::is_same_v<F, F32>)
      if (has(words, "approx")) return with_flags<F, DivideFast, 2>(words);
    return with_flags<F, Divide, 2>(words);
  }
  return common<F>(words);
}

template <Rounding R>
Run rounded(const Words& words) {
  const std::string& op = words[0];
  if (words.back() != "f32") return nullptr;
  if (op == "fma") return with_flags<F32, FusedTo<R>, 3>(words);
  if (op == "add") return with_flags<F32, AddTo<R>, 2>(words);
  if (op == "sub") return with_flags<F32, SubtractTo<R>, 2>(words);
  if (op == "mul") return with_flags<F32, MultiplyTo<R>, 2>(words);
  return nullptr;
}

}  // namespace

Run select_floats(const Words& words) {
  const std::string &op = words[0], &type = words.back();
  if (has(words, "rm")) return rounded<Rounding::down>(words);
  if (has(words, "rp")) return rounded<Rounding::up>(words);
  if (has(words, "rz")) return rounded<Rounding::zero>(words);
  if (type == "f16") return narrow<Form<F16, float, 1>>(words);
  if (type == "f16x2") return narrow<Form<F16, float, 2>>(words);
  if (type == "bf16") return narrow<Form<Bf16, float, 1>>(words);
  if (type == "bf16x2") return narrow<Form<Bf16, float, 2>>(words);
  if (type == "f64") return wide<F64>(words);
  if (type != "f32") return nullptr;
  if (op == "sin") return with_flags<F32, Sine, 1>(words);
  if (op == "cos") return with_flags<F32, Cosine, 1>(words);
  if (op == "lg2") return with_flags<F32, Log2, 1>(words);
  if (op == "ex2") return with_flags<F32, Exp2, 1>(words);
  if (op == "tanh") return with_flags<F32, Tanh, 1>(words);
  return wide<F32>(words);
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
