// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/kernel.h"
#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/norm_rows.h"
#include "ops/op.h"

namespace tenon::cpu::normalise {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

bool present(const Problem& problem, size_t input) { return input < problem.inputs.size() && problem.inputs[input]; }

/// LayerNormalization and RMSNormalization: rows of the last axes, scale and bias of one row.
class LayerStep : public backends::Step {
 public:
  explicit LayerStep(const Problem& problem)
      : centred_(ops::has_trait(problem.node->op, ops::Trait::centred)),
        bias_(present(problem, 2)),
        epsilon_(problem.node->real("epsilon", 1e-5f)),
        short_rows_(norm_rows(isa_for(problem))),
        loops_(loops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    int64_t axis = problem.node->integer("axis", -1);
    if (axis < 0) axis += static_cast<int64_t>(dims.rank());
    for (size_t at = 0; at < dims.rank(); ++at) (static_cast<int64_t>(at) < axis ? rows_ : count_) *= dims[at];
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* scale = reinterpret_cast<const float*>(inputs[1]);
    const auto* bias = bias_ ? reinterpret_cast<const float*>(inputs[2]) : nullptr;
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(rows_, begin, end);
    if (count_ <= norm_rows_longest)
      return short_rows_(y + begin * count_, x + begin * count_, end - begin,
                         {count_, epsilon_, centred_, scale, bias});
    for (int64_t row = begin; row < end; ++row) {
      Moments moments{0, 0};
      if (centred_) moments = loops_.moments(x + row * count_, count_);
      else
        moments.variance =
            loops_.fold(Fold::sum, Before::square, x + row * count_, count_) / static_cast<double>(count_);
      const auto factor = static_cast<float>(1 / std::sqrt(moments.variance + static_cast<double>(epsilon_)));
      loops_.normalise(y + row * count_, x + row * count_, static_cast<float>(moments.mean), factor, scale, bias,
                       count_);
    }
  }

 private:
  bool centred_, bias_;
  float epsilon_;
  int64_t rows_ = 1, count_ = 1;
  NormRowsKernel short_rows_;
  const Loops& loops_;
};

Reason refuses_layer(const Problem& problem) {
  const Operand& x = problem.inputs[0];
  for (const Operand& operand : problem.inputs)
    if (operand && operand.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.outputs[0].dtype != DType::f32) return {Reason::element_type, "results", "f32"};
  for (size_t at = 1; at < problem.outputs.size(); ++at)
    if (problem.outputs[at]) return {Reason::wanted, "statistics"};
  if (x.dims.elements() == 0) return Reason::empty;
  int64_t axis = problem.node->integer("axis", -1), count = 1;
  if (axis < 0) axis += static_cast<int64_t>(x.dims.rank());
  for (auto at = static_cast<size_t>(axis); at < x.dims.rank(); ++at) count *= x.dims[at];
  for (size_t at : {size_t{1}, size_t{2}})
    if (present(problem, at) && (problem.inputs[at].dims.elements() != count))
      return {Reason::shape, "scale and bias", "a row's size"};
  return {};
}
std::unique_ptr<backends::Step> make_layer(const Problem& problem) { return std::make_unique<LayerStep>(problem); }

/// BatchNormalization by constant statistics: one scale and shift for each channel.
class BatchStep : public backends::Step {
 public:
  explicit BatchStep(const Problem& problem)
      : last_(problem.node->text("layout", "NCHW") == "NHWC"), loops_(loops(isa_for(problem))) {
    const Dims& dims = problem.inputs[0].dims;
    channels_ = last_ ? dims.back() : dims.rank() > 1 ? dims[1] : 1;
    inner_ = 1;
    for (size_t axis = 2; axis < dims.rank() && !last_; ++axis) inner_ *= dims[axis];
    rows_ = dims.elements() / (last_ ? channels_ : inner_);
    const double epsilon = problem.node->real("epsilon", 1e-5f);
    const auto value = [&](size_t input, int64_t at) {
      return static_cast<double>(problem.inputs[input].constant.data<float>()[at]);
    };
    for (int64_t c = 0; c < channels_; ++c) {
      const double factor = value(1, c) / std::sqrt(value(4, c) + epsilon);
      scale_.push_back(static_cast<float>(factor));
      shift_.push_back(static_cast<float>(value(2, c) - value(3, c) * factor));
    }
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(rows_, begin, end);
    const int64_t count = last_ ? channels_ : inner_;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t channel = last_ ? 0 : row % channels_;
      loops_.affine(y + row * count, x + row * count, scale_.data() + channel, shift_.data() + channel, last_ ? 1 : 0,
                    count);
    }
  }

 private:
  bool last_;
  int64_t channels_, inner_, rows_;
  std::vector<float> scale_, shift_;
  const Loops& loops_;
};

Reason refuses_batch(const Problem& problem) {
  if (problem.node->integer("training_mode", 0)) return {Reason::attribute, "training_mode", "0"};
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  for (size_t at = 1; at < 5; ++at)
    if (problem.inputs[at].dtype != DType::f32 || !problem.inputs[at].constant)
      return {Reason::not_constant, "its statistics"};
  for (size_t at = 1; at < problem.outputs.size(); ++at)
    if (problem.outputs[at]) return {Reason::wanted, "statistics"};
  if (problem.inputs[0].dims.elements() == 0) return Reason::empty;
  return {};
}
std::unique_ptr<backends::Step> make_batch(const Problem& problem) { return std::make_unique<BatchStep>(problem); }

const backends::KernelRegistrar layer({"LayerNormalization", "rows", 1, refuses_any<refuses_layer>,
                                       make_any<make_layer>});
const backends::KernelRegistrar rms({"RMSNormalization", "rows", 1, refuses_any<refuses_layer>, make_any<make_layer>});
const backends::KernelRegistrar batch({"BatchNormalization", "affine", 1, refuses_any<refuses_batch>,
                                       make_any<make_batch>});

}  // namespace
}  // namespace tenon::cpu::normalise
