// SPDX-License-Identifier: Apache-2.0
// Numbers whose expressions take the steps of the CPU's kernels for bytes (cpu/kernels/vecmath.h and value.h, with
// products rounded before they are added), so that results have the same bits. Put before every text that names Exact.
__device__ __forceinline__ float apart(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
__device__ __forceinline__ float exact_exp(float x) {
  if (x != x) return x;
  x = fminf(89.f, fmaxf(-104.f, x));
  const float n = rintf(__fmul_rn(x, 0.721347520f));
  const float r = apart(-n, -4.24388880e-4f, apart(-n, 1.38671875f, x));
  float p = 1.9611600146e-4f;
  p = apart(p, r, 1.4104478760e-3f);
  p = apart(p, r, 8.3361035213e-3f);
  p = apart(p, r, 4.1661266237e-2f);
  p = apart(p, r, 1.6666613519e-1f);
  p = apart(p, r, 5.0000035763e-1f);
  p = apart(__fmul_rn(p, r), r, __fadd_rn(r, 1.f));
  const int exponent = (int)n << 23;
  return __fmul_rn(__int_as_float(__float_as_int(p) + exponent), __int_as_float(exponent + 0x3f800000));
}
__device__ __forceinline__ float exact_tanh(float x) {
  const float a = fabsf(x), z = __fmul_rn(x, x);
  float p = -5.70498872745e-3f;
  p = apart(p, z, 2.06390887954e-2f);
  p = apart(p, z, -5.37397155531e-2f);
  p = apart(p, z, 1.33314422036e-1f);
  p = apart(p, z, -3.33332819422e-1f);
  if (a < 0.625f) return apart(__fmul_rn(p, z), x, x);
  return copysignf(__fsub_rn(1.f, __fdiv_rn(2.f, __fadd_rn(exact_exp(__fadd_rn(a, a)), 1.f))), x);
}
__device__ __forceinline__ float exact_erf(float x) {
  if (x != x) return x;
  const float a = fminf(4.f, fmaxf(-4.f, x)), z = __fmul_rn(a, a);
  float p = 1.911031721e-08f, q = 1.021077794e-03f;
  p = apart(p, z, -1.942256082e-06f);
  q = apart(q, z, 1.495787079e-02f);
  p = apart(p, z, 1.472817092e-04f);
  q = apart(q, z, 1.179698951e-01f);
  p = apart(p, z, 3.990457717e-03f);
  q = apart(q, z, 5.168894446e-01f);
  p = apart(p, z, 5.152459650e-02f);
  q = apart(q, z, 1.f);
  p = apart(p, z, 2.071232433e-01f);
  p = apart(p, z, 1.128379094e+00f);
  return fminf(1.f, fmaxf(-1.f, __fdiv_rn(__fmul_rn(a, p), q)));
}
// Of x <= 0, less 1.
__device__ __forceinline__ float exact_expm1(float x) {
  float p = 1.f / 5040;
  p = apart(p, x, 1.f / 720);
  p = apart(p, x, 1.f / 120);
  p = apart(p, x, 1.f / 24);
  p = apart(p, x, 1.f / 6);
  p = apart(p, x, 0.5f);
  return x < -0.5f ? __fsub_rn(exact_exp(x), 1.f) : apart(__fmul_rn(p, x), x, x);
}
struct Exact {
  float v;
  explicit Exact(float x) : v(x) {}
  friend Exact operator+(Exact a, Exact b) { return Exact(__fadd_rn(a.v, b.v)); }
  friend Exact operator-(Exact a, Exact b) { return Exact(__fsub_rn(a.v, b.v)); }
  friend Exact operator*(Exact a, Exact b) { return Exact(__fmul_rn(a.v, b.v)); }
  friend Exact operator/(Exact a, Exact b) { return Exact(__fdiv_rn(a.v, b.v)); }
  friend Exact operator-(Exact x) { return Exact(-x.v); }
  friend bool operator<(Exact a, Exact b) { return a.v < b.v; }
  friend bool operator>(Exact a, Exact b) { return a.v > b.v; }
  friend Exact select(bool condition, Exact yes, Exact no) { return condition ? yes : no; }
  friend Exact min(Exact bound, Exact x) { return bound < x ? bound : x; }
  friend Exact max(Exact bound, Exact x) { return bound > x ? bound : x; }
  friend Exact maximum(Exact a, Exact b) { return a.v != a.v ? a : b.v != b.v ? b : a.v < b.v ? b : a; }
  friend Exact mul_add(Exact a, Exact b, Exact c) { return Exact(apart(a.v, b.v, c.v)); }
  friend Exact abs(Exact x) { return Exact(fabsf(x.v)); }
  friend Exact round(Exact x) { return Exact(rintf(x.v)); }
  friend Exact exp(Exact x) { return Exact(exact_exp(x.v)); }
  friend Exact tanh(Exact x) { return Exact(exact_tanh(x.v)); }
  friend Exact erf(Exact x) { return Exact(exact_erf(x.v)); }
  friend Exact expm1_negative(Exact x) { return Exact(exact_expm1(fminf(0.f, x.v))); }
  friend Exact steps_within(Exact x, Exact step, Exact low, Exact high) {
    const Exact steps = min(high, max(low, x / step));
    return Exact(steps.v == steps.v ? __fadd_rn(rintf(steps.v), 0.f) : 0.f);
  }
  friend Exact scaled_sigmoid(Exact a, Exact x) { return a / (Exact(1.f) + exp(-x)); }
};
