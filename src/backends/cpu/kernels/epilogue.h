// Activation and residual applied to finished sums.
#pragma once

#include "backends/cpu/kernels/shape.h"
#include "backends/cpu/kernels/vecmath.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

constexpr float kInfinity = __builtin_inff();

// Activations that are a clamp run inside the micro-kernels.
static TENON_INLINE bool is_clamp(Activation act) {
  return act == Activation::none || act == Activation::relu || act == Activation::clip;
}

// Every clamp written as a clip, the form that all functions below take.
static TENON_INLINE Epilogue normalised(Epilogue e) {
  if (!is_clamp(e.act) || e.act == Activation::clip) return e;
  e.alpha = e.act == Activation::relu ? 0.f : -kInfinity;
  e.beta = kInfinity;
  e.act = Activation::clip;
  return e;
}

template <Activation kAct>
static TENON_INLINE Vec activate(Vec x, const Epilogue& e) {
  if constexpr (kAct == Activation::silu) return silu(x);
  if constexpr (kAct == Activation::sigmoid) return sigmoid(x);
  if constexpr (kAct == Activation::hard_swish) {
    return mul(x, mul(min(set1(6.f), max(zero(), add(x, set1(3.f)))), set1(1.f / 6)));
  }
  if constexpr (kAct == Activation::hard_sigmoid) {
    return min(set1(1.f), max(zero(), fma(x, set1(e.alpha), set1(e.beta))));
  }
  if constexpr (kAct == Activation::leaky_relu) return select_less(x, zero(), mul(x, set1(e.alpha)), x);
  if constexpr (kAct == Activation::tanh) return tanh(x);
  if constexpr (kAct == Activation::gelu) return gelu(x);
  if constexpr (kAct == Activation::gelu_tanh) return gelu_tanh(x);
  if constexpr (kAct == Activation::mish) return mish(x);
  if constexpr (kAct == Activation::elu) {
    return select_less(x, zero(), mul(set1(e.alpha), expm1_negative(min(zero(), x))), x);
  }
  return min(set1(e.beta), max(set1(e.alpha), x));
}

// Calls f with the activation as a compile-time constant; every clamp shares one case.
template <class F>
static TENON_INLINE void with_activation(Activation act, const F& f) {
#define TENON_CASE(name) \
  case Activation::name: f.template operator()<Activation::name>(); break
  switch (act) {
    TENON_CASE(silu);
    TENON_CASE(sigmoid);
    TENON_CASE(hard_swish);
    TENON_CASE(hard_sigmoid);
    TENON_CASE(leaky_relu);
    TENON_CASE(tanh);
    TENON_CASE(gelu);
    TENON_CASE(gelu_tanh);
    TENON_CASE(mish);
    TENON_CASE(elu);
    default: f.template operator()<Activation::clip>();
  }
#undef TENON_CASE
}

// Residual, activation and store of one pixel's block of channels; `sums` holds whole vectors.
template <Activation kAct>
static TENON_INLINE void finish_pixel(const float* sums, int channels, const Epilogue& e, const float* residual,
                                      float* out) {
  for (int c = 0; c < channels; c += kLanes) {
    const int n = channels - c;
    const bool whole = n >= kLanes;
    Vec x = load(sums + c), r = zero();
    if (e.residual != Residual::none) r = whole ? load(residual + c) : load_n(residual + c, n);
    if (e.residual == Residual::before) x = add(x, r);
    x = activate<kAct>(x, e);
    if (e.residual == Residual::after) x = add(x, r);
    if (whole) {
      store(out + c, x);
    } else {
      store_n(out + c, x, n);
    }
  }
}

// The same for `pixels` rows of kBlock sums; out and residual of row i start at out_at[i] and residual_at[i].
[[maybe_unused]] static __attribute__((noinline)) void finish_tile(const float* sums, int pixels, int channels,
                                                                   const Epilogue& e, const float* residual,
                                                                   const int64_t* residual_at, float* out,
                                                                   const int64_t* out_at) {
  with_activation(e.act, [&]<Activation kAct>() __attribute__((always_inline)) {
    if (channels == kBlock && e.residual == Residual::none) {
      for (int i = 0; i < pixels; ++i) {
        const Vec a = activate<kAct>(load(sums + i * kBlock), e),
                  b = activate<kAct>(load(sums + i * kBlock + kLanes), e);
        store(out + out_at[i], a);
        store(out + out_at[i] + kLanes, b);
      }
      return;
    }
    for (int i = 0; i < pixels; ++i) {
      finish_pixel<kAct>(sums + i * kBlock, channels, e, residual + (e.residual != Residual::none ? residual_at[i] : 0),
                         out + out_at[i]);
    }
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
