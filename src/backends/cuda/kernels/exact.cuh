// Activations by the steps of the CPU's kernels for bytes (cpu/kernels/vecmath.h and epilogue.h, with products rounded
// before they are added), so that results have the same bits. Put before bytes.cuh.
__device__ __forceinline__ float apart(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
__device__ __forceinline__ float exact_exp(float x) {
  x = fminf(88.7228f, fmaxf(-87.336f, x));
  const float n = rintf(__fmul_rn(x, 1.44269504f));
  const float r = apart(-n, -2.12194440e-4f, apart(-n, 0.693359375f, x));
  float p = 1.9875691500e-4f;
  p = apart(p, r, 1.3981999507e-3f);
  p = apart(p, r, 8.3334519073e-3f);
  p = apart(p, r, 4.1665795894e-2f);
  p = apart(p, r, 1.6666665459e-1f);
  p = apart(p, r, 5.0000001201e-1f);
  p = apart(__fmul_rn(p, r), r, __fadd_rn(r, 1.f));
  return __int_as_float(__float_as_int(p) + ((int)n << 23));
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
  const float a = fminf(4.f, fabsf(x)), z = __fmul_rn(x, x);
  float p = 7.847262168e-05f;
  p = apart(p, z, -8.008193108e-04f);
  p = apart(p, z, 5.188099575e-03f);
  p = apart(p, z, -2.685369179e-02f);
  p = apart(p, z, 1.128358245e-01f);
  p = apart(p, z, -3.761262596e-01f);
  p = apart(p, z, 1.128379107e+00f);
  if (a < 1.f) return __fmul_rn(p, x);
  float q = -1.154907746e-03f;
  q = apart(q, a, 1.481101755e-02f);
  q = apart(q, a, -8.872874826e-02f);
  q = apart(q, a, -6.543555856e-01f);
  q = apart(q, a, -1.117530823e+00f);
  q = apart(q, a, -2.646552632e-03f);
  return copysignf(__fsub_rn(1.f, exact_exp(q)), x);
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
template <int KIND> __device__ __forceinline__ float exact_activate(float x, float alpha, float beta) {
  if (KIND == 3) return __fdiv_rn(x, __fadd_rn(1.f, exact_exp(-x)));
  if (KIND == 4) return __fdiv_rn(1.f, __fadd_rn(1.f, exact_exp(-x)));
  if (KIND == 5) return __fmul_rn(x, __fmul_rn(fminf(6.f, fmaxf(0.f, __fadd_rn(x, 3.f))), 1.f / 6));
  if (KIND == 6) return fminf(1.f, fmaxf(0.f, apart(x, alpha, beta)));
  if (KIND == 7) return x < 0.f ? __fmul_rn(x, alpha) : x;
  if (KIND == 8) return exact_tanh(x);
  const float half = __fmul_rn(0.5f, x);
  if (KIND == 9) return apart(half, exact_erf(__fmul_rn(x, 0.707106781f)), half);
  if (KIND == 10) {
    const float inner = __fmul_rn(x, apart(__fmul_rn(x, x), 0.0356774081f, 0.797884561f));
    return apart(half, exact_tanh(inner), half);
  }
  if (KIND == 11) {
    const float e = exact_exp(fminf(20.f, x)), n = __fmul_rn(e, __fadd_rn(e, 2.f));
    return __fmul_rn(x, __fdiv_rn(n, __fadd_rn(n, 2.f)));
  }
  if (KIND == 12) return x < 0.f ? __fmul_rn(alpha, exact_expm1(fminf(0.f, x))) : x;
  return activate<KIND, false>(x, alpha, beta);
}
