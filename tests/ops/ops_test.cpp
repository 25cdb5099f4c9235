// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "backends/strided_copy.h"
#include "base/thread_pool.h"
#include "case.h"
#include "ops/op.h"
#include "support/compare.h"

namespace tenon::tests {
namespace {

using test::difference;

const std::string folder = TENON_SOURCE_DIR "/tests/ops";

int64_t room_of(const backends::Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis) last += (operand.dims[axis] - 1) * operand.strides[axis];
  return operand.dims.elements() == 0 ? 0 : last;
}

/// Runs a step on memory of its own; outputs come back dense. Bytes around and between the output's elements must stay
/// as they were.
std::vector<Tensor> run(const Case& one, const backends::Problem& problem, backends::Step& step) {
  constexpr uint8_t mark = 0xa5;
  constexpr size_t guard = 64;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> inputs, outputs;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const backends::Operand& operand = problem.inputs[at];
    const size_t size = size_of(operand.dtype);
    memory.emplace_back(static_cast<size_t>(operand ? room_of(operand) : 0) * size + 2 * guard, std::byte{mark});
    inputs.push_back(operand ? memory.back().data() + guard : nullptr);
    if (!operand) continue;
    if (operand.constant) inputs.back() = const_cast<std::byte*>(operand.constant.data<std::byte>());
    else
      backends::strided_copy(operand.dims, size, one.operands[at].data<std::byte>(),
                             backends::dense_strides(operand.dims), inputs.back(), operand.strides);
  }
  const size_t first_output = memory.size();
  for (const backends::Operand& operand : problem.outputs) {
    memory.emplace_back(static_cast<size_t>(room_of(operand)) * size_of(operand.dtype) + 2 * guard, std::byte{mark});
    outputs.push_back(memory.back().data() + guard);
  }
  const Tensor workspace(DType::u8, {static_cast<int64_t>(step.workspace_bytes()) + 1});
  ThreadPool thread_pool(problem.threads, one.file == "odd" ? Denormals::kept : Denormals::flushed, Helpers::all);
  struct Context {
    backends::Step& step;
    std::byte **inputs, **outputs;
  } context{step, inputs.data(), outputs.data()};
  // A step keeps nothing of its last run, and gives the same bits with fewer workers than it was made for.
  std::vector<std::vector<std::byte>> first;
  for (int turn = 0; turn <= problem.threads; ++turn) {
    const int workers = std::max(1, problem.threads - turn);
    thread_pool.admit(workers);
    if (const auto* finding = dynamic_cast<const backends::FindingStep*>(&step)) {
      thread_pool.run(
          [](void* opaque, const Worker& worker) {
            auto& all = *static_cast<Context*>(opaque);
            static_cast<const backends::FindingStep&>(all.step).find(all.inputs, worker);
          },
          &context, const_cast<std::byte*>(workspace.data<std::byte>()));
      const Dims found = finding->found(workspace.data<std::byte>());
      EXPECT_EQ(found.str(), problem.outputs[0].dims.str());
      if (!(found == problem.outputs[0].dims)) return one.operands;
    }
    thread_pool.run(
        [](void* opaque, const Worker& worker) {
          auto& all = *static_cast<Context*>(opaque);
          all.step.run(all.inputs, all.outputs, worker);
        },
        &context, const_cast<std::byte*>(workspace.data<std::byte>()));
    const std::vector<std::vector<std::byte>> given(memory.begin() + static_cast<int64_t>(first_output), memory.end());
    if (first.empty()) first = given;
    EXPECT_TRUE(given == first) << workers << " workers of " << problem.threads << " give other bits";
  }
  std::vector<Tensor> results;
  for (size_t at = 0; at < problem.outputs.size(); ++at) {
    const backends::Operand& operand = problem.outputs[at];
    const size_t size = size_of(operand.dtype);
    results.emplace_back(operand.dtype, operand.dims);
    backends::strided_copy(operand.dims, size, outputs[at], operand.strides, results.back().data<std::byte>(),
                           backends::dense_strides(operand.dims));
    // Overwrites the elements with marks: whatever else changed stands out.
    const std::vector<std::byte> marks(results.back().bytes(), std::byte{mark});
    backends::strided_copy(operand.dims, size, marks.data(), backends::dense_strides(operand.dims), outputs[at],
                           operand.strides);
    const auto& bytes = memory[first_output + at];
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{mark}; }))
        << "writes outside output " << at;
  }
  return results;
}

class Ops : public testing::TestWithParam<Case> {};

TEST_P(Ops, KernelsGiveWhatTheReferenceGives) {
  const Case& one = GetParam();
  const std::vector<Tensor> expected = reference(one);
  const std::vector<std::string> wanted_kernels = one.kernels.empty() ? one.kernels : split(one.kernels[0], ',');
  for (const std::string& wanted : wanted_kernels) {
    const auto kernels = backends::kernels_for(one.node().op);
    const bool known =
        std::any_of(kernels.begin(), kernels.end(), [&](const auto* kernel) { return kernel->name == wanted; });
    EXPECT_TRUE(known) << "no kernel is called " << wanted;
  }
  const test::Tolerance tolerance{.element = one.tolerance, .mean = one.tolerance / 2};
  std::map<const backends::Kernel*, std::unique_ptr<backends::Step>> others;  // for one thread, without views
  for (const Gaps gaps : {Gaps::none, Gaps::rows, Gaps::images}) {
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      SCOPED_TRACE(kernel->name + described(gaps));
      const backends::Problem first = problem_of(one, expected, 1, gaps);
      const backends::Reason reason = backends::refusal(*kernel, first);
      if (reason) {
        const bool wanted =
            std::find(wanted_kernels.begin(), wanted_kernels.end(), kernel->name) != wanted_kernels.end();
        EXPECT_TRUE(gaps != Gaps::none || !wanted || reason.code == backends::Reason::instruction_set)
            << "refused: " << reason.text();
        continue;
      }
      std::vector<Tensor> alone;
      for (int threads : {1, 2, 3}) {
        const backends::Problem problem = problem_of(one, expected, threads, gaps);
        auto step = kernel->make(problem);
        const std::vector<Tensor> got = run(one, problem, *step);
        if (threads == 1) alone = got;
        std::unique_ptr<backends::Step>& other = others[kernel];
        if (!other) other = std::move(step);
        const auto resized = other->resized(problem);
        const std::vector<Tensor> again = resized ? run(one, problem, *resized) : got;
        for (size_t at = 0; at < expected.size(); ++at) {
          ASSERT_EQ(difference(got[at], expected[at], tolerance), "") << threads << " threads, output " << at;
          ASSERT_EQ(std::memcmp(got[at].data(), alone[at].data(), got[at].bytes()), 0)
              << "other bits with " << threads << " threads, output " << at;
          ASSERT_EQ(std::memcmp(got[at].data(), again[at].data(), got[at].bytes()), 0)
              << "other bits by a step made from another's, " << threads << " threads, output " << at;
        }
      }
    }
  }
}

TEST(Kernels, OfProductsInF32DoNotWriteOtherTypes) {
  int asked = 0;
  for (const Case& one : read_cases(folder)) {
    if (!ops::has_trait(one.node().op, ops::Trait::product)) continue;
    backends::Problem problem = problem_of(one, reference(one), 1, Gaps::none);
    if (problem.outputs[0].dtype != DType::f32) continue;
    problem.outputs[0].dtype = DType::bf16;
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (kernel == &backends::reference_kernel()) continue;
      EXPECT_TRUE(backends::refusal(*kernel, problem)) << kernel->name << ", " << one.name();
      ++asked;
    }
  }
  EXPECT_GT(asked, 100);
}

TEST(Kernels, OfConvolutionsAndProductsAreMadeFromStepsOfOtherSizes) {
  std::set<std::string> resized;
  for (const Case& one : read_cases(folder)) {
    if (!ops::has_trait(one.node().op, ops::Trait::product)) continue;
    const backends::Problem problem = problem_of(one, reference(one), 1, Gaps::none);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op))
      if (!backends::refusal(*kernel, problem) && kernel->make(problem)->resized(problem)) resized.insert(kernel->name);
  }
  for (const char* name : {"direct", "winograd4", "winograd2", "depthwise", "stem", "gemv", "strips", "int8_int16",
                           "int8x2", "int8_depthwise", "int8_winograd"})
    EXPECT_TRUE(resized.count(name)) << name;
}

TEST(Kernels, OfPackedWeightsTakeRowsThatLieApart) {
  int taken = 0;
  for (const Case& one : read_cases(folder)) {
    if (one.node().op != "MatMul" && one.node().op != "Gemm") continue;
    const std::vector<Tensor> results = reference(one);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (kernel->name != "direct" || backends::refusal(*kernel, problem_of(one, results, 1, Gaps::none))) continue;
      EXPECT_EQ(backends::refusal(*kernel, problem_of(one, results, 1, Gaps::rows)).text(), "") << one.name();
      ++taken;
    }
  }
  EXPECT_GT(taken, 9);
}

/// As tokens of several images lie without those of their classes.
TEST(Kernels, OfProductsTakeRowsInGroups) {
  int taken = 0;
  for (const Case& one : read_cases(folder)) {
    const std::vector<Tensor> expected = reference(one);
    const backends::Problem dense = problem_of(one, expected, 2, Gaps::none);
    if (one.node().op != "MatMul" || dense.outputs[0].dims.rank() < 3) continue;
    backends::Problem problem = dense;
    const auto set_apart = [](backends::Operand& operand) {
      Dims room = operand.dims;
      room[room.rank() - 2] += 1;
      if (!operand.constant) operand.strides = backends::dense_strides(room);
    };
    for (size_t at : {size_t{0}, size_t{1}, size_t{3}})
      if (at < problem.inputs.size() && problem.inputs[at].dims.rank() > 1) set_apart(problem.inputs[at]);
    set_apart(problem.outputs[0]);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (backends::refusal(*kernel, dense)) continue;
      if (kernel->name != "direct" && kernel->name != "blocks") continue;
      EXPECT_EQ(backends::refusal(*kernel, problem).text(), "") << one.name();
      const std::vector<Tensor> got = run(one, problem, *kernel->make(problem));
      const test::Tolerance tolerance{.element = one.tolerance, .mean = one.tolerance / 2};
      EXPECT_EQ(difference(got[0], expected[0], tolerance), "") << one.name();
      ++taken;
    }
  }
  EXPECT_GT(taken, 12);
}

TEST(Kernels, OfExpressionsTakeElementsThatLieApart) {
  int taken = 0;
  for (const Case& one : read_cases(folder)) {
    if (one.kernels.empty() || one.kernels[0] != "rows" || one.file != "elementwise") continue;
    const std::vector<Tensor> expected = reference(one);
    backends::Problem problem = problem_of(one, expected, 2, Gaps::none);
    const auto set_apart = [](backends::Operand& operand) {
      if (operand && !operand.constant)
        for (size_t axis = 0; axis < operand.dims.rank(); ++axis) operand.strides[axis] *= 2;
    };
    std::for_each(problem.inputs.begin(), problem.inputs.end(), set_apart);
    std::for_each(problem.outputs.begin(), problem.outputs.end(), set_apart);
    for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
      if (kernel->name != "rows") continue;
      EXPECT_EQ(backends::refusal(*kernel, problem).text(), "") << one.name();
      if (backends::refusal(*kernel, problem)) continue;
      const test::Tolerance tolerance{.element = one.tolerance, .mean = one.tolerance / 2};
      EXPECT_EQ(difference(run(one, problem, *kernel->make(problem))[0], expected[0], tolerance), "") << one.name();
      ++taken;
    }
  }
  EXPECT_GT(taken, 20);
}

INSTANTIATE_TEST_SUITE_P(Cases, Ops, testing::ValuesIn(read_cases(folder)),
                         [](const auto& info) { return info.param.file + "_" + std::to_string(info.param.line); });

}  // namespace

}  // namespace tenon::tests
