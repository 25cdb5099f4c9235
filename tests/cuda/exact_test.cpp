// kernels/exact.cuh as it computes on a CPU, whose kernels for bytes it shall agree with to the bit. Needs no GPU.
#pragma GCC target("sse4.2")  // what portable kernels may take for granted
#define TENON_ISA_NAMESPACE portable
#define TENON_TWO_ROUNDINGS
#include "backends/cpu/kernels/epilogue.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace tenon::tests {
namespace {

/// What CUDA C++ has and the text asks for.
namespace gpu {
#define __device__
#define __forceinline__ inline
float __fadd_rn(float a, float b) { return a + b; }
float __fsub_rn(float a, float b) { return a - b; }
float __fmul_rn(float a, float b) { return a * b; }
float __fdiv_rn(float a, float b) { return a / b; }
float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
int __float_as_int(float value) { return std::bit_cast<int>(value); }
template <int KIND, bool FAST> float activate(float x, float, float) { return x; }
#include "backends/cuda/kernels/exact.cuh"
#undef __device__
#undef __forceinline__
}  // namespace gpu

/// `kind`: as ops::Activation counts.
template <cpu::Activation act, int kind>
void agree() {
  cpu::Epilogue epilogue;
  epilogue.alpha = 0.2f, epilogue.beta = 0.5f;
  std::mt19937 random(kind);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int at = 0; at < 100000; ++at) {
    const float x = uniform(random) * (at % 3 == 0 ? 1.f : at % 3 == 1 ? 10.f : 100.f);
    float expected[cpu::portable::kLanes];
    cpu::portable::store(expected, cpu::portable::activate<act>(cpu::portable::set1(x), epilogue));
    const float got = gpu::exact_activate<kind>(x, epilogue.alpha, epilogue.beta);
    ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected[0])) << x << ": " << got;
  }
}

TEST(Exact, ActivationsHaveTheBitsOfTheCpusKernelsForBytes) {
  using cpu::Activation;
  agree<Activation::silu, 3>();
  agree<Activation::sigmoid, 4>();
  agree<Activation::hard_swish, 5>();
  agree<Activation::hard_sigmoid, 6>();
  agree<Activation::leaky_relu, 7>();
  agree<Activation::tanh, 8>();
  agree<Activation::gelu, 9>();
  agree<Activation::gelu_tanh, 10>();
  agree<Activation::mish, 11>();
  agree<Activation::elu, 12>();
}

}  // namespace
}  // namespace tenon::tests
