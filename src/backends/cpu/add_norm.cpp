// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/norm_rows.h"
#include "ops/op.h"

namespace tenon::cpu::add_norm {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// A row's sum, and the row normalised while it is in the cache.
class AddNormStep : public backends::Step {
 public:
  explicit AddNormStep(const Problem& problem)
      : centred_(ops::has_trait(problem.node->op, ops::Trait::centred)),
        bias_(problem.inputs.size() > 3 && problem.inputs[3]),
        epsilon_(problem.node->real("epsilon", 1e-5f)),
        count_(problem.inputs[0].dims.back()),
        rows_(problem.inputs[0].dims.elements() / count_),
        short_rows_(norm_rows(isa_for(problem))),
        loops_(loops(isa_for(problem))) {}

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    const auto* scale = reinterpret_cast<const float*>(inputs[2]);
    const auto* bias = bias_ ? reinterpret_cast<const float*>(inputs[3]) : nullptr;
    auto* sums = reinterpret_cast<float*>(outputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[1]);
    int64_t begin, end;
    worker.share(rows_, begin, end);
    if (count_ <= norm_rows_longest) {
      constexpr int64_t together = 4;
      for (int64_t row = begin; row < end; row += together) {
        const int64_t rows = std::min(together, end - row), first = row * count_;
        for (int64_t at = first; at < first + rows * count_; ++at) sums[at] = a[at] + b[at];
        short_rows_(y + first, sums + first, rows, {count_, epsilon_, centred_, scale, bias});
      }
      return;
    }
    for (int64_t row = begin; row < end; ++row) {
      float* sum = sums + row * count_;
      for (int64_t at = 0; at < count_; ++at) sum[at] = a[row * count_ + at] + b[row * count_ + at];
      Moments moments{0, 0};
      if (centred_) moments = loops_.moments(sum, count_);
      else moments.variance = loops_.fold(Fold::sum, Before::square, sum, count_) / static_cast<double>(count_);
      const auto factor = static_cast<float>(1 / std::sqrt(moments.variance + static_cast<double>(epsilon_)));
      loops_.normalise(y + row * count_, sum, static_cast<float>(moments.mean), factor, scale, bias, count_);
    }
  }

 private:
  bool centred_, bias_;
  float epsilon_;
  int64_t count_, rows_;
  NormRowsKernel short_rows_;
  const Loops& loops_;
};

Reason refuses(const Problem& problem) {
  for (const Operand& operand : problem.inputs)
    if (operand && operand.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  for (const Operand& operand : problem.outputs)
    if (!operand) return {Reason::absent, "an output"};
  const Dims& dims = problem.inputs[0].dims;
  if (dims.elements() == 0) return Reason::empty;
  if (!(problem.inputs[1].dims == dims)) return {Reason::shape, "operands of the sum", "the same sizes"};
  for (size_t at = 2; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && problem.inputs[at].dims.elements() != dims.back())
      return {Reason::shape, "scale and bias", "a row's size"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<AddNormStep>(problem); }

const backends::KernelRegistrar layer({"tenon:AddLayerNorm", "rows", 1, refuses_any<refuses>, make_any<make>});
const backends::KernelRegistrar rms({"tenon:AddRmsNorm", "rows", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::add_norm
