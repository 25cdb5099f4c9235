// SPDX-License-Identifier: Apache-2.0
// GPUs of other compute capabilities, emulated: their kernels compile, and what is launched keeps to what they have.
// For each the best guess for every case that has a kernel file or types not yet seen; TENON_TEST_ALL=1: every best
// guess.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cstdlib>
#include <set>

#include "../ops/case.h"
#include "backends/cuda/runtime/kernel.h"
#include "kinds.h"
#include "ptx_emulator/cards.h"
#include "support/net.h"

namespace tenon::tests {
namespace {

using cuda::Choice;

/// Of the first input and the first result.
std::string types_of(const backends::Problem& problem) {
  const auto name = [](const std::vector<backends::Operand>& operands) {
    return operands.empty() ? "" : std::string(tenon::name(operands[0].dtype));
  };
  return name(problem.inputs) + (problem.tf32 ? " tf32 " : " ") + name(problem.outputs);
}

using ::tenon::test::error_of;

TEST(Architecture, IsTheGpusOwnWhereTheCompilerKnowsIt) {
  cuda::Compiler compiler;
  EXPECT_EQ(cuda::architecture_for(86, compiler), "sm_86");
  compiler.capabilities = {75, 80, 86, 89, 90, 100};
  EXPECT_EQ(cuda::architecture_for(75, compiler), "sm_75");
  EXPECT_EQ(cuda::architecture_for(90, compiler), "sm_90a");
  EXPECT_EQ(cuda::architecture_for(100, compiler), "sm_100");
}

TEST(Architecture, IsTheLastBeforeForLaterGpus) {
  cuda::Compiler compiler;
  compiler.capabilities = {75, 80, 86, 89, 90, 100};
  EXPECT_EQ(cuda::architecture_for(88, compiler), "compute_86");
  EXPECT_EQ(cuda::architecture_for(121, compiler), "compute_100");
}

TEST(Architecture, OfEarlierGpusIsRefused) {
  cuda::Compiler compiler;
  compiler.major = 14, compiler.minor = 1, compiler.capabilities = {80, 90};
  EXPECT_EQ(error_of([&] { cuda::architecture_for(75, compiler); }),
            "unsupported: GPU kernels cannot be compiled, NVRTC 14.1 compiles for compute capability 8.0 and later, "
            "the GPU's is 7.5");
}

class Emulated : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
    ASSERT_EQ(cuda::driver().why, "");
  }

  /// What is asked of one case: its choices, but for those like others before.
  void check(const Case& one, const std::vector<Tensor>& outputs, Kind kind) {
    std::vector<Tensor> operands;
    backends::Problem problem = problem_of(one, outputs, kind, Gaps::none, operands);
    problem.vendor = false;
    bool first = true;
    for (const Choice& choice : cuda::choices(problem, device().properties())) {
      const bool best = std::exchange(first, false);
      std::string key = types_of(problem) + " " + choice.kernel->name;
      for (const cuda::Source& source : choice.tactic.sources) key += " " + source.file;
      if (!seen_.insert(key).second && !(best && all_)) continue;
      SCOPED_TRACE(one.name() + ": " + choice.kernel->name + " " + choice.tactic.name + " of " + types_of(problem));
      ++checked_;
      try {
        make_and_launch(problem, choice);
      } catch (const Error& error) {
        ADD_FAILURE() << error.text();
      }
    }
  }

  void make_and_launch(const backends::Problem& problem, const Choice& choice) {
    const auto step = choice.kernel->make(problem, device(), choice.tactic);
    constexpr cuda::Address somewhere = 1 << 20;
    const std::vector<cuda::Address> inputs(problem.inputs.size(), somewhere);
    const std::vector<cuda::Address> outputs(problem.outputs.size(), somewhere);
    step->enqueue({nullptr, inputs.data(), outputs.data(), somewhere});
  }

  cuda::Device& device() { return cuda::Device::get(GetParam()); }

  const bool all_ = std::getenv("TENON_TEST_ALL") != nullptr;
  std::set<std::string> seen_;
  int checked_ = 0;
};

TEST_P(Emulated, KernelsCompileAndKeepToWhatThereIs) {
  for (const auto& [one, outputs] : cases_with_outputs())
    for (const Kind kind : kinds_of(one)) check(one, outputs, kind);
  EXPECT_GT(checked_, 50);
  RecordProperty("kernels", checked_);
}

/// That the test above can fail: launches that ask for more than there is, of a kernel of 64 threads at most.
TEST_P(Emulated, CardsRefuseWhatTheyDoNotHave) {
  const cuda::Source source{"refused.cu", {}, R"(
    extern "C" __global__ void __launch_bounds__(64) refused(Breadcrumb breadcrumb, int* to) {
      __shared__ int room[1024];
      room[threadIdx.x] = to[threadIdx.x];
      __syncthreads();
      to[threadIdx.x] = room[63 - threadIdx.x];
    })"};
  const int most = device().properties().shared_bytes - 4096;
  const auto launched = [&](const cuda::Grid& grid, int allowed) {
    return error_of([&] {
      const cuda::Function function = device().function(source, "refused", allowed);
      cuda::launch(device(), function, grid, {}, nullptr);
    });
  };
  constexpr int without_asking = 48 << 10;  // with what is static
  if (GetParam() != ptx_emulator::later) {         // PTX says nothing of static memory, nor of threads
    EXPECT_NE(launched({1, 1, 1, 64, without_asking}, 0), "none");
  }
  EXPECT_EQ(launched({1, 1, 1, 64, without_asking}, without_asking), "none");
  EXPECT_EQ(launched({1, 1, 1, 64, most}, most), "none");
  EXPECT_NE(launched({1, 1, 1, 64, most + 1}, most), "none");
  EXPECT_NE(launched({1, 65536, 1, 64, 0}, most), "none");
  EXPECT_NE(launched({0, 1, 1, 64, 0}, most), "none");
  if (GetParam() == ptx_emulator::later) return;
  EXPECT_NE(launched({1, 1, 1, 64, most}, most + 4), "none");
  EXPECT_NE(launched({1, 1, 1, 128, 0}, most), "none");
}

INSTANTIATE_TEST_SUITE_P(Cards, Emulated, testing::Range(0, static_cast<int>(std::size(ptx_emulator::cards))),
                         [](const auto& info) {
                           const ptx_emulator::Card& card = ptx_emulator::cards[info.param];
                           return "of_" + std::to_string(card.major) + "_" + std::to_string(card.minor);
                         });

}  // namespace
}  // namespace tenon::tests
