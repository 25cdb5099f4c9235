// SPDX-License-Identifier: Apache-2.0
// Every tactic of every GPU kernel against the reference, on the cases of tests/ops and of this folder, in f32 and f16.
// TENON_TEST_CAPABILITY=7.5 (or another of ptx_emulator/cards.h): those of a GPU of that compute capability, on the one
// that is there, for which the driver translates them. On the emulated GPU the first choice of each kernel file and
// types, and with TENON_TEST_ALL=1 all; vendors' libraries do not run there.
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "backends/cuda/runtime/kernel.h"
#include "backends/cuda/runtime/timing.h"
#include "backends/strided_copy.h"
#include "base/thread_pool.h"
#include "kinds.h"
#include "ops/half.h"
#include "ptx_emulator/cards.h"
#include "support/compare.h"

namespace tenon::tests {
namespace {

using cuda::Choice;
using test::difference;

constexpr uint8_t mark = 0xa5;
constexpr size_t guard = 256;

int64_t room_of(const backends::Operand& operand) {
  int64_t last = 1;
  for (size_t axis = 0; axis < operand.dims.rank(); ++axis) last += (operand.dims[axis] - 1) * operand.strides[axis];
  return operand.dims.elements() == 0 ? 0 : last;
}

/// Activations that kernels approximate may move a byte by one.
int steps_allowed(const Case& one) {
  const std::string activation = one.node().text("activation", "");
  return activation.empty() || activation == "relu" || activation == "clip" ? 0 : 1;
}

/// Of what a kernel adds to the rounding of its operands, which is taken away before: a 16-bit result is rounded, and
/// what it holds between two products, too; a tf32 kernel may round its result. Activations are approximate: bytes may
/// move by one where a value lies between two, and so may 8-bit floats, whose products tensor cores add in about 14
/// bits: a product by a vendor's library is off by 4.3e-3 of the output's RMS at 256 terms, 4.8e-3 at 720.
test::Tolerance tolerance_of(const Case& one, Kind kind, DType type) {
  double element = kind == Kind::tf32 ? 1e-3 : 1e-5, mean = kind == Kind::tf32 ? 4e-4 : 3e-6;
  // wgmma cuts off what additions in f32 leave below the last bit: 5e-6 of the RMS over 4,608 products.
  if (kind == Kind::f16_to_f32) element = 3e-5, mean = 1e-5;
  if (type == DType::f16) element = 1e-3, mean = 4e-4;
  if (type == DType::bf16) element = 8e-3, mean = 3.2e-3;
  // Probabilities are rounded before they weigh the values, and the result once more: up to 7.6e-3 in bfloat16 in
  // NumPy, over five draws of 73,000 elements.
  if (one.node().op == "tenon:DotAttention" && size_of(type) == 2) element *= 1.5;
  const bool float8 = type == DType::f8e4m3fn && one.node().op == "tenon:Float8Conv";
  // Hopper keeps 14 bits of what 32 products at a time add to, and cuts off the rest.
  if (float8)
    element =
        std::max(5e-3, static_cast<double>(one.operands[1].elements() / one.operands[1].dims()[0]) / 32 * 0x1p-14);
  return {.element = std::max(element, one.tolerance),
          .mean = std::max(mean, one.tolerance / 2),
          .steps = float8 ? 1 : steps_allowed(one),
          .moved = float8 ? 0.05 : 0.01};
}

/// Runs a step on memory of its own; bytes around and between the elements of its outputs must stay as they were.
std::vector<Tensor> run(const std::vector<Tensor>& operands, const backends::Problem& problem, cuda::Step& step) {
  std::vector<cuda::Buffer> memory;
  std::vector<cuda::Address> inputs, outputs;
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const backends::Operand& operand = problem.inputs[at];
    inputs.push_back(0);
    if (!operand || (operand.constant && !step.reads(at))) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(room_of(operand)) * size_of(operand.dtype) + guard,
                                 std::byte{mark});
    backends::strided_copy(operand.dims, size_of(operand.dtype), operands[at].data<std::byte>(),
                           backends::dense_strides(operand.dims), bytes.data(), operand.strides);
    memory.emplace_back(bytes.size());
    memory.back().upload(bytes.data(), bytes.size());
    inputs.back() = memory.back().address();
  }
  std::vector<std::vector<std::byte>> blank;
  for (const backends::Operand& operand : problem.outputs) {
    blank.emplace_back(static_cast<size_t>(room_of(operand)) * size_of(operand.dtype) + 2 * guard, std::byte{mark});
    memory.emplace_back(blank.back().size());
    memory.back().upload(blank.back().data(), blank.back().size());
    outputs.push_back(memory.back().address() + guard);
  }
  const cuda::Buffer workspace(step.workspace_bytes());
  const cuda::Clock clock;
  // Three times in one graph: a step keeps nothing of its last run.
  const cuda::Recording recording(clock.stream(), [&] {
    for (int turn = 0; turn < 3; ++turn)
      step.enqueue({clock.stream(), inputs.data(), outputs.data(), workspace.address()});
  });
  recording.replay(clock.stream());
  clock.synchronise();
  std::vector<Tensor> results;
  for (size_t at = 0; at < problem.outputs.size(); ++at) {
    const backends::Operand& operand = problem.outputs[at];
    std::vector<std::byte>& bytes = blank[at];
    cuda::check(cuda::driver().MemcpyDtoH(bytes.data(), outputs[at] - guard, bytes.size()), "cuMemcpyDtoH");
    results.emplace_back(operand.dtype, operand.dims);
    const size_t size = size_of(operand.dtype);
    backends::strided_copy(operand.dims, size, bytes.data() + guard, operand.strides, results.back().data<std::byte>(),
                           backends::dense_strides(operand.dims));
    const std::vector<std::byte> marks(results.back().bytes(), std::byte{mark});
    backends::strided_copy(operand.dims, size, marks.data(), backends::dense_strides(operand.dims),
                           bytes.data() + guard, operand.strides);
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{mark}; }))
        << "writes outside output " << at;
  }
  return results;
}

/// By the CPU's first kernel that takes the case; empty: none but the reference.
std::vector<Tensor> on_cpu(const Case& one, const std::vector<Tensor>& sizes) {
  backends::Problem problem = problem_of(one, sizes, 1, Gaps::none);
  problem.fused = true;
  for (const backends::Kernel* kernel : backends::kernels_for(one.node().op)) {
    if (kernel->name == "ref" || backends::refusal(*kernel, problem)) continue;
    const auto step = kernel->make(problem);
    std::vector<std::byte*> inputs, outputs;
    for (const Tensor& operand : one.operands) inputs.push_back(const_cast<std::byte*>(operand.data<std::byte>()));
    std::vector<Tensor> results;
    for (const Tensor& size : sizes) {
      results.emplace_back(size.dtype(), size.dims());
      outputs.push_back(results.back().data<std::byte>());
    }
    Tensor workspace(DType::u8, {static_cast<int64_t>(step->workspace_bytes()) + 1});
    step->run(inputs.data(), outputs.data(), Worker{0, 1, nullptr, nullptr, workspace.data<std::byte>()});
    return results;
  }
  return {};
}

void round(Tensor& tensor, float (*rounded)(float)) {
  tensor = tensor.copy();
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = rounded(tensor.data<float>()[at]);
}

float f16_of(float value) { return ops::f16_value(ops::f16_bits(value)); }
float bf16_of(float value) { return ops::bf16_value(ops::bf16_bits(value)); }
/// 10 bits of mantissa, to nearest with ties away.
float tf32_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

cuda::Device& device_under_test() {
  static cuda::Device& device = []() -> cuda::Device& {
    const char* asked = std::getenv("TENON_TEST_CAPABILITY");
    if (!asked) return cuda::Device::get(0);
    cuda::Properties properties = cuda::properties_of(0);
    for (const ptx_emulator::Card& card : ptx_emulator::cards)
      if (std::to_string(card.major) + "." + std::to_string(card.minor) == asked) {
        properties.major = card.major, properties.minor = card.minor;
        properties.multiprocessors = card.multiprocessors, properties.shared_bytes = card.shared_bytes;
        return *new cuda::Device(properties, "compute_" + std::to_string(properties.capability()));
      }
    throw std::runtime_error("TENON_TEST_CAPABILITY: no card of " + std::string(asked));
  }();
  device.use();
  return device;
}

/// Of its kernel file and types, on views of either kind or not.
bool is_first(const backends::Problem& problem, const Choice& choice) {
  static std::set<std::string> seen;
  std::string key = choice.kernel->name;
  for (const cuda::Source& source : choice.tactic.sources) key += " " + source.file;
  for (const auto* operands : {&problem.inputs, &problem.outputs})
    if (!operands->empty()) {
      const backends::Operand& first = operands->front();
      key += " " + std::string(name(first.dtype));
      const bool dense = first.strides == backends::dense_strides(first.dims);
      key += dense ? "" : first.rows_contiguous() ? " apart" : " on views";
    }
  // Macros that make another kernel of one file.
  static const std::map<std::string, std::vector<std::string>> macros = {
      {"pipelined", {"A_DEPTH", "B_DEPTH", "PARTED"}},
      {"small", {"A_FAST", "ALONG_BATCH", "_DEPTH"}},
      {"reduce", {"LANES"}},
      {"columns", {"SPLIT", "JOINED"}},
      {"groups", {"SPLIT", "JOINED"}},
      {"norms", {"SPLIT"}},
      {"pair", {"FIRST_", "K1", "STREAM"}}};
  if (const auto of_kernel = macros.find(choice.kernel->name); of_kernel != macros.end())
    for (const std::string& define : choice.tactic.sources.front().defines)
      for (const std::string& macro : of_kernel->second)
        if (define.find(macro) != std::string::npos) key += define;
  return seen.insert(key + (problem.tf32 ? " tf32" : "") + (problem.strict ? " strict" : "")).second;
}

/// A case in one of its kinds.
struct Run {
  Case one;
  Kind kind;
};

void PrintTo(const Run& run, std::ostream* to) { *to << run.one.name() << " in " << name(run.kind); }

const std::vector<Case>& cases() {
  static const std::vector<Case> list = all_cases();
  return list;
}

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const Case& one : cases())
    for (Kind kind : kinds_of(one)) runs.push_back({one, kind});
  return runs;
}

std::vector<Case> cases_of_strict_bytes() {
  std::vector<Case> list = cases();
  std::erase_if(list, [](const Case& one) { return one.node().op != "tenon:Int8Conv" || steps_allowed(one) == 0; });
  return list;
}

std::string name_of(const Case& one, size_t index) {
  return one.file + "_" + std::to_string(one.line) + "_" + std::to_string(index);
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
    if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  }

  /// Calls `judge` with what each tactic of each kernel gives; how many there were.
  template <class Judge>
  size_t with_each_tactic(backends::Problem problem, const std::vector<Tensor>& operands, const Judge& judge) {
    cuda::Device& device = device_under_test();
    const bool emulated = device.properties().name.ends_with("(emulated)");
    problem.vendor &= !emulated;
    std::vector<Choice> choices = cuda::choices(problem, device.properties());
    if (emulated && !std::getenv("TENON_TEST_ALL"))
      std::erase_if(choices, [&](const Choice& choice) { return !is_first(problem, choice); });
    std::vector<cuda::Source> sources;
    for (const Choice& choice : choices)
      sources.insert(sources.end(), choice.tactic.sources.begin(), choice.tactic.sources.end());
    device.prepare(sources);
    for (const Choice& choice : choices) {
      SCOPED_TRACE(choice.kernel->name + " " + choice.tactic.name);
      try {
        judge(run(operands, problem, *choice.kernel->make(problem, device, choice.tactic)));
      } catch (const Error& error) {
        ADD_FAILURE() << error.text();
      }
    }
    return choices.size();
  }

  /// For a test in which nothing ran.
  static std::string why_nothing(const backends::Problem& problem) {
    const cuda::Properties& gpu = device_under_test().properties();
    return cuda::choices(problem, gpu).empty() ? "no kernel takes it: " + cuda::refusals(problem, gpu)
                                               : "its kernels ran with a case before; TENON_TEST_ALL=1 runs all";
  }
};

/// Where the operand's matrices lie transposed.
void transpose(backends::Operand& operand) {
  Dims dims = operand.dims;
  std::swap(dims[dims.rank() - 1], dims[dims.rank() - 2]);
  operand.strides = backends::dense_strides(dims);
  std::swap(operand.strides[dims.rank() - 1], operand.strides[dims.rank() - 2]);
}

/// Where the operand's matrices lie element by element beside each other.
void interleave(backends::Operand& operand) {
  Dims dims = operand.dims;
  const size_t rank = dims.rank();
  if (rank < 3) return;
  const auto rotated = [&](size_t axis) { return axis + 3 == rank ? rank - 1 : axis + 3 > rank ? axis - 1 : axis; };
  for (size_t axis = 0; axis < rank; ++axis) dims[rotated(axis)] = operand.dims[axis];
  const Dims strides = backends::dense_strides(dims);
  for (size_t axis = 0; axis < rank; ++axis) operand.strides[axis] = strides[rotated(axis)];
}

class GpuKernels : public Gpu, public testing::WithParamInterface<Run> {
 protected:
  size_t check(const Case& one, const std::vector<Tensor>& expected, Gaps gaps, backends::Problem& problem,
               const std::vector<size_t>& transposed = {}, const std::vector<size_t>& interleaved = {},
               bool interleaved_result = false) {
    const Kind kind = GetParam().kind;
    std::vector<Tensor> operands;
    problem = problem_of(one, expected, kind, gaps, operands);
    if (gaps == Gaps::none) {
      EXPECT_EQ(fault(one, kind, problem, device_under_test().properties()), "");
    }
    for (const size_t at : transposed) transpose(problem.inputs[at]);
    for (const size_t at : interleaved) interleave(problem.inputs[at]);
    if (interleaved_result) interleave(problem.outputs[0]);
    std::string trace = gaps == Gaps::none ? "dense" : described(gaps);
    for (const size_t at : transposed) trace += ", operand " + std::to_string(at) + " transposed";
    for (const size_t at : interleaved) trace += ", operand " + std::to_string(at) + " interleaved";
    SCOPED_TRACE(trace + (interleaved_result ? ", result interleaved" : ""));
    return with_each_tactic(problem, operands, [&](const std::vector<Tensor>& got) {
      for (size_t at = 0; at < got.size(); ++at)
        EXPECT_EQ(difference(got[at], expected[at], tolerance_of(one, kind, got[at].dtype())), "");
    });
  }
};

TEST_P(GpuKernels, GiveWhatTheReferenceGives) {
  auto [one, kind] = GetParam();
  // Operands that rounding leaves alone: what remains is the kernel's own error.
  for (size_t at = 0; at < one.operands.size(); ++at) {
    if (!one.operands[at] || one.operands[at].dtype() != DType::f32) continue;
    if (is_16_bit(kind) && (!one.constant[at] || is_weights(one, at)))
      round(one.operands[at], kind == Kind::bf16 ? bf16_of : f16_of);
    if (kind == Kind::tf32 && at < (is_product(one) ? 2u : 3u)) round(one.operands[at], tf32_of);
  }
  const std::vector<Tensor> expected = reference(one);
  backends::Problem problem;
  size_t ran = 0;
  for (const Gaps gaps : {Gaps::rows, Gaps::images, Gaps::none}) ran += check(one, expected, gaps, problem);
  const auto is_matrix = [&](size_t at) { return !one.constant[at] && one.operands[at].dims().rank() >= 2; };
  if (one.node().op == "MatMul" && is_matrix(0) && is_matrix(1))
    for (const std::vector<size_t>& operands : {std::vector<size_t>{0}, {1}, {0, 1}})
      ran += check(one, expected, Gaps::none, problem, operands);
  if (one.node().op == "MatMul" && is_matrix(0) && is_matrix(1) && expected[0].dims().rank() >= 3)
    for (const std::vector<size_t>& operands : {std::vector<size_t>{}, {0}, {1}, {0, 1}})
      ran += check(one, expected, Gaps::none, problem, {}, operands, true);
  if (ops::has_trait(one.node().op, ops::Trait::any_result))
    ran += check(one, expected, Gaps::none, problem, {}, {}, true);
  if (ran == 0) GTEST_SKIP() << why_nothing(problem);
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuKernels, testing::ValuesIn(all_runs()), [](const auto& info) {
  return name_of(info.param.one, info.index) + "_" + name(info.param.kind);
});

class GpuStrict : public Gpu, public testing::WithParamInterface<Case> {};

TEST_P(GpuStrict, ConvolutionsOfBytesHaveTheCpusBits) {
  const Case& one = GetParam();
  const std::vector<Tensor> sizes = reference(one);
  const std::vector<Tensor> expected = on_cpu(one, sizes);
  if (expected.empty()) GTEST_SKIP() << "no kernel of the CPU takes it";
  std::vector<Tensor> operands;
  backends::Problem problem = problem_of(one, sizes, Kind::f32, Gaps::none, operands);
  problem.strict = true;
  const size_t count = with_each_tactic(problem, operands, [&](const std::vector<Tensor>& got) {
    for (size_t at = 0; at < got.size(); ++at) EXPECT_EQ(difference(got[at], expected[at]), "");
  });
  if (count == 0) GTEST_SKIP() << why_nothing(problem);
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuStrict, testing::ValuesIn(cases_of_strict_bytes()),
                         [](const auto& info) { return name_of(info.param, info.index); });

}  // namespace
}  // namespace tenon::tests
