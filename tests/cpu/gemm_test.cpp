// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/kernels/conv.h"

namespace tenon::cpu {
namespace {

constexpr float canary = -12345.5f;

TEST(Gemm, AllTransposesAgainstDouble) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa > detect_isa()) continue;
    for (int64_t m : {1, 6, 19})
      for (int64_t n : {1, 16, 45})
        for (int64_t k : {1, 31, 64})
          for (int form = 0; form < 8; ++form) {
            const bool ta = form & 1, tb = form & 2, with_bias = form & 4;
            const GemmShape g{m, n, k, (ta ? m : k) + 2, (tb ? k : n) + 1, n + 3, ta, tb};
            std::vector<float> a((ta ? k : m) * g.lda), b((tb ? n : k) * g.ldb), c(m * g.ldc, canary), bias(n);
            for (auto* v : {&a, &b, &bias})
              for (float& x : *v) x = uniform(random);
            std::unique_ptr<float, decltype(&std::free)> workspace(
                static_cast<float*>(std::aligned_alloc(64, (gemm_workspace_floats(isa, g) + 16) / 16 * 64)),
                &std::free);
            gemm(isa, g, a.data(), b.data(), c.data(), with_bias ? bias.data() : nullptr, workspace.get());
            for (int64_t i = 0; i < m; ++i) {
              for (int64_t j = 0; j < g.ldc; ++j) {
                if (j >= n) {
                  ASSERT_EQ(c[i * g.ldc + j], canary);
                  continue;
                }
                double sum = with_bias ? bias[j] : 0;
                for (int64_t q = 0; q < k; ++q)
                  sum += double{ta ? a[q * g.lda + i] : a[i * g.lda + q]} * (tb ? b[j * g.ldb + q] : b[q * g.ldb + j]);
                ASSERT_NEAR(c[i * g.ldc + j], sum, 2e-5) << m << " " << n << " " << k << " form " << form;
              }
            }
          }
  }
}

}  // namespace
}  // namespace tenon::cpu
