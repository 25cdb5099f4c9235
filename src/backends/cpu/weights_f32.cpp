// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/weights_f32.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/pages.h"
#include "ops/half.h"

namespace tenon::cpu {
namespace {

using backends::Problem;

class CastStep : public backends::Step {
 public:
  CastStep(const Problem& problem, Make make) : inputs_(problem.inputs.size()) {
    Problem wide = problem;
    const Tensor given = problem.inputs[1].constant;
    weights_ = weights_f32(given);
    wide.inputs[1].constant = weights_, wide.inputs[1].dtype = DType::f32;
    wide.weights = nullptr;  // whose keys are addresses of an engine's constants
    inner_ = make(wide);
    release_pages(given.data(), given.bytes());
  }
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  size_t packed_bytes() const override { return weights_.bytes() + inner_->packed_bytes(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    constexpr size_t most = 8;
    std::byte* in[most];
    std::copy_n(inputs, std::min(most, inputs_), in);
    in[1] = const_cast<std::byte*>(weights_.data<std::byte>());
    inner_->run(in, outputs, worker);
  }

 private:
  size_t inputs_;
  Tensor weights_;
  std::unique_ptr<backends::Step> inner_;
};

}  // namespace

Tensor scratch(const Dims& dims) {
  constexpr size_t least = size_t{1} << 20;
  const size_t bytes = static_cast<size_t>(dims.elements()) * sizeof(float);
  void* const memory =
      bytes < least ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {DType::f32, dims};
  return Tensor::view(DType::f32, dims, memory, {memory, [bytes](void* p) { munmap(p, bytes); }});
}

Tensor weights_f32(const Tensor& given) {
  if (!is_16_bit(given.dtype())) return given;
  Tensor wide = scratch(given.dims());
  const auto value = given.dtype() == DType::f16 ? ops::f16_value : ops::bf16_value;
  const auto* bits = given.data<uint16_t>();
  std::transform(bits, bits + given.elements(), wide.data<float>(), value);
  return wide;
}

float weight_at(const Tensor& given, int64_t at) {
  switch (given.dtype()) {
    case DType::f16: return ops::f16_value(given.data<uint16_t>()[at]);
    case DType::bf16: return ops::bf16_value(given.data<uint16_t>()[at]);
    default: return given.data<float>()[at];
  }
}

bool takes_weights(const Problem& problem) {
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    const backends::Operand& input = problem.inputs[at];
    if (input && input.dtype != DType::f32 && !(at == 1 && input.constant && is_16_bit(input.dtype))) return false;
  }
  return std::all_of(problem.outputs.begin(), problem.outputs.end(),
                     [](const backends::Operand& output) { return !output || output.dtype == DType::f32; });
}

std::unique_ptr<backends::Step> with_f32_weights(const Problem& problem, Make make) {
  if (problem.inputs.size() < 2 || !is_16_bit(problem.inputs[1].dtype)) return make(problem);
  return std::make_unique<CastStep>(problem, make);
}

}  // namespace tenon::cpu
