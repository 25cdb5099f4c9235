// SPDX-License-Identifier: Apache-2.0
// Activation and residual applied to finished sums.
#pragma once

#include "backends/cpu/kernels/shape.h"
#include "backends/cpu/kernels/value.h"
#include "ops/expression_list.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

constexpr float kInfinity = __builtin_inff();

// Activations that are a clamp run inside the micro-kernels.
static TENON_INLINE bool is_clamp(expr::Id act) {
  return act == expr::Id::Identity || act == expr::Id::Relu || act == expr::Id::Clip;
}

// Every clamp written as a clip, the form that all functions below take.
static TENON_INLINE Epilogue normalised(Epilogue e) {
  if (e.act != expr::Id::Identity && e.act != expr::Id::Relu) return e;
  e.alpha = e.act == expr::Id::Relu ? 0.f : -kInfinity;
  e.beta = kInfinity;
  e.act = expr::Id::Clip;
  return e;
}

// Whether an activation has a number for each channel, among the epilogue's slopes.
template <class Act>
constexpr bool kBySlopes = Act::operands == 2;

template <class Act>
static TENON_INLINE Vec activate(Vec x, const Epilogue& e, Vec slopes) {
  return expr::apply<Act>(Value(x), kBySlopes<Act> ? Value(slopes) : Value(e.alpha), Value(e.beta)).v;
}
// `slopes`: of the vector's first channel; read where the activation has some.
template <class Act>
static TENON_INLINE Vec activate(Vec x, const Epilogue& e, const float* slopes) {
  if constexpr (kBySlopes<Act>) return activate<Act>(x, e, load(slopes));
  else return activate<Act>(x, e, zero());
}

// Calls f with the activation as a type; every clamp is a clip.
template <class F>
static TENON_INLINE void with_activation(expr::Id act, const F& f) {
  switch (act) {
#define TENON_CASE(name, file)                                      \
  case expr::Id::name:                                              \
    if constexpr (expr::name::is_epilogue && !expr::name::is_clamp) \
      return f.template operator()<expr::name>();                   \
    break;
    TENON_EXPRESSIONS(TENON_CASE)
#undef TENON_CASE
  }
  f.template operator()<expr::Clip>();
}

// Residual, activation and store of one pixel's block of channels; `sums` and `slopes` hold whole vectors.
template <class Act>
static TENON_INLINE void finish_pixel(const float* sums, int channels, const Epilogue& e, const float* slopes,
                                      const float* residual, float* out) {
  for (int c = 0; c < channels; c += kLanes) {
    const int n = channels - c;
    const bool whole = n >= kLanes;
    Vec x = load(sums + c), r = zero();
    if (e.residual != Residual::none) r = whole ? load(residual + c) : load_n(residual + c, n);
    if (e.residual == Residual::before) x = add(x, r);
    x = activate<Act>(x, e, slopes + c);
    if (e.residual == Residual::after) x = add(x, r);
    if (whole) {
      store(out + c, x);
    } else {
      store_n(out + c, x, n);
    }
  }
}

// Whether places follow each other `step` apart.
static TENON_INLINE bool are_beside(const int64_t* at, int count, int step) {
  bool beside = true;
  for (int i = 1; i < count; ++i) beside &= at[i] == at[0] + i * step;
  return beside;
}

// The same for `pixels` rows of kBlock sums; out and residual of row i start at out_at[i] and residual_at[i].
[[maybe_unused]] static __attribute__((noinline)) void finish_tile(const float* sums, int pixels, int channels,
                                                                   const Epilogue& e, const float* slopes,
                                                                   const float* residual, const int64_t* residual_at,
                                                                   float* out, const int64_t* out_at) {
  with_activation(e.act, [&]<class Act>() __attribute__((always_inline)) {
    if (channels == kBlock && e.residual == Residual::none) {
      for (int i = 0; i < pixels; ++i) {
        const Vec a = activate<Act>(load(sums + i * kBlock), e, slopes),
                  b = activate<Act>(load(sums + i * kBlock + kLanes), e, slopes + kLanes);
        store(out + out_at[i], a);
        store(out + out_at[i] + kLanes, b);
      }
      return;
    }
    // Pixels of few channels that lie side by side share vectors.
    constexpr int kFew = kLanes / 2;
    const bool adds = e.residual != Residual::none;
    if (channels <= kFew && pixels <= kTilePixels && are_beside(out_at, pixels, channels) &&
        (!adds || are_beside(residual_at, pixels, channels))) {
      alignas(64) float beside[kTilePixels * kFew + kLanes];
      for (int i = 0; i < pixels; ++i) store(beside + i * channels, load(sums + i * kBlock));
      const float* by = slopes;
      alignas(64) float repeated[kBySlopes<Act> ? kTilePixels * kFew + kLanes : 1];
      if constexpr (kBySlopes<Act>) {
        for (int i = 0; i < pixels; ++i) store(repeated + i * channels, load(slopes));
        by = repeated;
      }
      return finish_pixel<Act>(beside, pixels * channels, e, by, adds ? residual + residual_at[0] : residual,
                               out + out_at[0]);
    }
    for (int i = 0; i < pixels; ++i) {
      finish_pixel<Act>(sums + i * kBlock, channels, e, slopes,
                        residual + (e.residual != Residual::none ? residual_at[i] : 0), out + out_at[i]);
    }
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
