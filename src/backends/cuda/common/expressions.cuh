// SPDX-License-Identifier: Apache-2.0
// The numbers that expressions compute with on a GPU (ops/expression_math.h), and what kernels call. Put before every
// text that names tenon::expr.
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

// The smaller and the larger of two; x where it is NaN.
__device__ __forceinline__ float min_nan(float bound, float x) {
#if __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %0;" : "+f"(x) : "f"(bound));
  return x;
#else
  return bound < x ? bound : x;
#endif
}
__device__ __forceinline__ float max_nan(float bound, float x) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %0;" : "+f"(x) : "f"(bound));
  return x;
#else
  return bound > x ? bound : x;
#endif
}
__device__ __forceinline__ float tanh_fast(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// tanh(x q(x^2)), within 3e-5.
__device__ __forceinline__ float erf_fast(float x) {
  const float u = fminf(x * x, 10.f);
  return tanh_fast(x * fmaf(fmaf(-1.98859164e-3f, u, 0.104668151f), u, 1.12784624f));
}
// FAST: approximate by far less than a rounding to 16 bits.
template <bool FAST> struct RealOf {
  float v;
  explicit RealOf(float x) : v(x) {}
  friend RealOf operator+(RealOf a, RealOf b) { return RealOf(a.v + b.v); }
  friend RealOf operator-(RealOf a, RealOf b) { return RealOf(a.v - b.v); }
  friend RealOf operator*(RealOf a, RealOf b) { return RealOf(a.v * b.v); }
  friend RealOf operator/(RealOf a, RealOf b) { return RealOf(a.v / b.v); }
  friend RealOf operator-(RealOf x) { return RealOf(-x.v); }
  friend bool operator<(RealOf a, RealOf b) { return a.v < b.v; }
  friend bool operator>(RealOf a, RealOf b) { return a.v > b.v; }
  friend RealOf select(bool condition, RealOf yes, RealOf no) { return condition ? yes : no; }
  friend RealOf min(RealOf bound, RealOf x) { return RealOf(min_nan(bound.v, x.v)); }
  friend RealOf max(RealOf bound, RealOf x) { return RealOf(max_nan(bound.v, x.v)); }
  friend RealOf minimum(RealOf a, RealOf b) { return RealOf(a.v != a.v ? a.v : min_nan(a.v, b.v)); }
  friend RealOf maximum(RealOf a, RealOf b) { return RealOf(a.v != a.v ? a.v : max_nan(a.v, b.v)); }
  friend RealOf mul_add(RealOf a, RealOf b, RealOf c) { return RealOf(fmaf(a.v, b.v, c.v)); }
  friend RealOf abs(RealOf x) { return RealOf(fabsf(x.v)); }
  friend RealOf sqrt(RealOf x) { return RealOf(sqrtf(x.v)); }
  friend RealOf floor(RealOf x) { return RealOf(floorf(x.v)); }
  friend RealOf ceil(RealOf x) { return RealOf(ceilf(x.v)); }
  friend RealOf round(RealOf x) { return RealOf(rintf(x.v)); }
  friend RealOf exp(RealOf x) { return RealOf(FAST ? __expf(x.v) : expf(x.v)); }
  friend RealOf log(RealOf x) { return RealOf(logf(x.v)); }
  friend RealOf sin(RealOf x) { return RealOf(sinf(x.v)); }
  friend RealOf cos(RealOf x) { return RealOf(cosf(x.v)); }
  friend RealOf tanh(RealOf x) { return RealOf(FAST ? tanh_fast(x.v) : tanhf(x.v)); }
  friend RealOf erf(RealOf x) { return RealOf(FAST ? erf_fast(x.v) : erff(x.v)); }
  friend RealOf pow(RealOf a, RealOf b) { return RealOf(powf(a.v, b.v)); }
  friend RealOf expm1_negative(RealOf x) { return RealOf(expm1f(x.v)); }
  friend RealOf log1p_exp(RealOf x) { return RealOf(log1pf(expf(x.v))); }
  friend RealOf steps_within(RealOf x, RealOf step, RealOf low, RealOf high) {
    const float steps = min_nan(high.v, max_nan(low.v, __fdiv_rn(x.v, step.v)));
    return RealOf(steps == steps ? rintf(steps) + 0.f : 0.f);
  }
  friend RealOf scaled_sigmoid(RealOf a, RealOf x) {
    if (!FAST) return RealOf(__fdividef(a.v, 1.f + __expf(-x.v)));
    const float h = 0.5f * a.v;
    return RealOf(fmaf(h, tanh_fast(0.5f * x.v), h));
  }
};
typedef RealOf<false> Real;
typedef RealOf<true> Fast;

template <class E, class V> __device__ __forceinline__ float evaluate(float x, float alpha, float beta) {
  return tenon::expr::apply<E>(V(x), V(alpha), V(beta)).v;
}
template <class E, class V> __device__ __forceinline__ float combine(float a, float b) {
  return E::apply(V(a), V(b)).v;
}
template <class E, bool FAST> __device__ __forceinline__ float activate(float x, float alpha, float beta) {
  return evaluate<E, RealOf<FAST>>(x, alpha, beta);
}
