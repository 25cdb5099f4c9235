// SPDX-License-Identifier: Apache-2.0
// Which kernels are offered, on emulated GPUs; nothing is compiled.
#include <gtest/gtest.h>

#include "backends/cuda/runtime/kernel.h"
#include "kinds.h"

namespace tenon::tests {
namespace {

/// Calls `with` the card's properties, the case, its kind and problem, for all on cards of 7.5, 8.0, 8.9 and 9.0.
template <class With>
void for_problems(const With& with, Gaps gaps = Gaps::none) {
  ASSERT_EQ(cuda::driver().why, "");
  for (const auto& [one, outputs] : cases_with_outputs())
    for (const Kind kind : kinds_of(one)) {
      std::vector<Tensor> operands;
      backends::Problem problem = problem_of(one, outputs, kind, gaps, operands);
      problem.vendor = false;
      for (const int card : {0, 1, 3, 4}) with(cuda::properties_of(card), one, kind, problem);
    }
}

TEST(Choices, AreWhatTheCasesSay) {
  for_problems([](const cuda::Properties& gpu, const Case& one, Kind kind, const backends::Problem& problem) {
    EXPECT_EQ(fault(one, kind, problem, gpu), "") << one.name() << " in " << name(kind) << " on " << gpu.capability();
  });
}

TEST(Choices, AreThereForViewsWhereTheyAreForDenseOperands) {
  int with_copies = 0;
  Gaps gaps = Gaps::rows;
  const auto judge = [&](const cuda::Properties& gpu, const Case& one, Kind kind, const backends::Problem& problem) {
    const std::vector<cuda::Choice> choices = cuda::choices(problem, gpu);
    backends::Problem dense = problem;
    for (auto* operands : {&dense.inputs, &dense.outputs})
      for (backends::Operand& operand : *operands) operand.strides = backends::dense_strides(operand.dims);
    EXPECT_EQ(choices.empty(), cuda::choices(dense, gpu).empty()) << one.name() << " in " << name(kind);
    with_copies += !choices.empty() && choices.front().kernel->name == "dense";
    if (gaps == Gaps::rows && one.node().op == "LayerNormalization" && !choices.empty() && !one.node().has("axis")) {
      EXPECT_EQ(choices.front().kernel->name, "rows") << one.name();
    }
  };
  for_problems(judge, gaps);
  gaps = Gaps::images;
  for_problems(judge, gaps);
  EXPECT_GT(with_copies, 0);
}

TEST(Choices, HaveNothingOfVendorsWhereTheyAreLeftOut) {
  for_problems([](const cuda::Properties& gpu, const Case& one, Kind, const backends::Problem& problem) {
    for (const cuda::Choice& choice : cuda::choices(problem, gpu))
      for (const char* vendor : {"cublas", "cudnn"})
        EXPECT_EQ(choice.tactic.name.find(vendor), std::string::npos) << one.name() << ": " << choice.tactic.name;
  });
}

TEST(Choices, AreNoneForE4m3BeforeItIsKnown) {
  int with_floats = 0;
  for_problems([&](const cuda::Properties& gpu, const Case& one, Kind, const backends::Problem& problem) {
    bool has_floats = false;
    for (const auto* operands : {&problem.inputs, &problem.outputs})
      for (const backends::Operand& operand : *operands) has_floats |= operand.dtype == DType::f8e4m3fn;
    if (!has_floats || gpu.capability() >= 89) return;
    ++with_floats;
    EXPECT_TRUE(cuda::choices(problem, gpu).empty()) << one.name();
    EXPECT_NE(cuda::refusals(problem, gpu).find("e4m3 needs compute capability 8.9"), std::string::npos);
  });
  EXPECT_GT(with_floats, 0);
}

/// A macro's value in a source; empty where it has none of that name.
std::string value_of(const cuda::Source& source, const std::string& macro) {
  for (const std::string& define : source.defines)
    if (define.starts_with(macro + "=")) return define.substr(macro.size() + 1);
  return {};
}

TEST(Choices, RoundBytesAsTheCpuWhereActivationsAreExact) {
  int with_zero_points = 0, strict = 0;
  for_problems([&](const cuda::Properties& gpu, const Case& one, Kind, backends::Problem problem) {
    if (one.node().op != "tenon:Int8Conv") return;
    const std::string activation = one.node().text("activation", "");
    const bool exact = activation.empty() || activation == "relu" || activation == "clip";
    for (const bool is_strict : {false, true}) {
      problem.strict = is_strict;
      for (const cuda::Choice& choice : cuda::choices(problem, gpu))
        for (const cuda::Source& source : choice.tactic.sources) {
          const std::string name = one.name() + ": " + choice.tactic.name;
          // 0 and 3: what zero points add is in the bias, rounded.
          const std::string zero = value_of(source, "ZP"), own = value_of(source, "STRICT");
          const bool has_zero_point = one.operands[5] && one.operands[5].data<uint8_t>()[0] != 0;
          if (!zero.empty() && (exact || is_strict) && has_zero_point) {
            EXPECT_TRUE(zero == "1" || zero == "2") << name << " has ZP=" << zero;
            ++with_zero_points;
          }
          if (is_strict && !own.empty()) {
            EXPECT_EQ(own, "1") << name;
            ++strict;
          }
        }
    }
  });
  EXPECT_GT(with_zero_points, 0);
  EXPECT_GT(strict, 0);
}

}  // namespace
}  // namespace tenon::tests
