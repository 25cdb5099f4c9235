// SPDX-License-Identifier: Apache-2.0
// exact.cuh as it computes on a CPU, whose kernels for bytes it shall agree with to the bit. Needs no GPU.
#pragma GCC target("sse4.2")  // what portable kernels may take for granted
#define TENON_ISA_NAMESPACE portable
#define TENON_TWO_ROUNDINGS
#include "backends/cpu/kernels/f32/epilogue.h"

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
#include "backends/cuda/common/exact.cuh"
#undef __device__
#undef __forceinline__
}  // namespace gpu

template <class E>
void agree(const char* name) {
  cpu::Epilogue epilogue;
  epilogue.alpha = 0.2f, epilogue.beta = 0.5f;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int at = 0; at < 100000; ++at) {
    const float x = uniform(random) * (at % 3 == 0 ? 1.f : at % 3 == 1 ? 10.f : 100.f);
    float expected[cpu::portable::kLanes];
    cpu::portable::store(
        expected, cpu::portable::activate<E>(cpu::portable::set1(x), epilogue, cpu::portable::set1(epilogue.alpha)));
    const float got = expr::apply<E>(gpu::Exact(x), gpu::Exact(epilogue.alpha), gpu::Exact(epilogue.beta)).v;
    ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected[0])) << name << " of " << x << ": " << got;
  }
}

TEST(Exact, ActivationsHaveTheBitsOfTheCpusKernelsForBytes) {
#define TENON_AGREE(name, file) \
  if constexpr (expr::name::is_epilogue) agree<expr::name>(#name);
  TENON_EXPRESSIONS(TENON_AGREE)
}

}  // namespace
}  // namespace tenon::tests
