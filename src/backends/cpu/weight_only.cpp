// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_only.h"

#include <algorithm>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/block_weights.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/packing.h"
#include "ops/half.h"

namespace tenon::cpu::weight_only {
namespace {

using backends::Problem;
using backends::Reason;
namespace slots = ops::weight_only;

bool has(const Problem& problem, size_t input) {
  return input < problem.inputs.size() && static_cast<bool>(problem.inputs[input]);
}

/// Sizes and form of the weights, not packed yet.
BlockWeights weights_of(const Problem& problem) {
  const ir::Node& node = *problem.node;
  BlockWeights w{};
  w.n = problem.inputs[slots::weights].dims[0], w.k = node.integer("k", 0), w.block = node.integer("block", 32);
  w.bits = static_cast<int>(node.integer("bits", 4));
  w.has_zeros = has(problem, slots::zero_points);
  const Tensor& scales = problem.inputs[slots::scales].constant;
  // Scales that f16 has are held in it.
  w.f16_scales = scales.dtype() == DType::f16;
  if (scales.dtype() == DType::f32)
    w.f16_scales = std::all_of(scales.data<float>(), scales.data<float>() + scales.elements(),
                               [](float scale) { return ops::f16_value(ops::f16_bits(scale)) == scale; });
  return w;
}

Packed packed(const Problem& problem, const BlockWeights& w, int columns) {
  const Tensor& integers = problem.inputs[slots::weights].constant;
  const Tensor& scales = problem.inputs[slots::scales].constant;
  const Tensor zeros = w.has_zeros ? problem.inputs[slots::zero_points].constant : Tensor();
  const auto make = [&]() -> Packed {
    const auto packed = std::make_shared<const PackedBytes>(packed_bytes(w, columns));
    const Tensor steps = weights_f32(scales);
    pack_blocks(w, columns, {integers.data<uint8_t>(), steps.data<float>(), zeros ? zeros.data<uint8_t>() : nullptr},
                packed->data());
    for (const Tensor* read : {&integers, &scales, &zeros})
      if (*read) release_pages(read->data(), read->bytes());
    return packed;
  };
  if (!problem.weights) return make();
  const auto number = [](auto pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
  return problem.weights->get({number(integers.data()), number(scales.data()), number(zeros ? zeros.data() : nullptr),
                               number(&pack_blocks), w.n, w.k, w.block, w.bits, w.f16_scales, columns},
                              make);
}

/// Each worker multiplies all rows by panels of its own: by few rows at a time, with weights cast in registers
/// (kRows), or by all, with the panel's floats in between.
template <bool kRows>
class WeightOnlyStep : public backends::Step {
 public:
  explicit WeightOnlyStep(const Problem& problem)
      : ops_(block_weight_ops(isa_for(problem))),
        rows_(row_ops(isa_for(problem))),
        weights_(weights_of(problem)),
        packed_(packed(problem, weights_, ops_.columns)),
        epilogue_(epilogue_of(*problem.node)),
        threads_(problem.threads),
        bias_(has(problem, slots::bias)),
        m_(problem.inputs[slots::data].dims.elements() / weights_.k) {
    weights_.packed = packed_->data();
    const int64_t floats = kRows ? kMostRows * block_count(weights_) : weights_.k * ops_.columns;
    own_ = static_cast<size_t>(set_apart(floats * static_cast<int64_t>(sizeof(float)))) / sizeof(float);
  }
  size_t workspace_bytes() const override { return own_ * sizeof(float) * static_cast<size_t>(threads_); }
  size_t packed_bytes() const override { return packed_->size(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[slots::data]);
    auto* c = reinterpret_cast<float*>(outputs[0]);
    auto* own = reinterpret_cast<float*>(worker.workspace) + own_ * static_cast<size_t>(worker.id);
    int64_t begin, end;
    worker.share(ceil_div(weights_.n, ops_.columns), begin, end);
    if (begin == end) return;
    const int64_t n = weights_.n, k = weights_.k;
    if constexpr (kRows) {
      for (int64_t row = 0; row < m_; row += kMostRows) {
        const int64_t count = std::min(kMostRows, m_ - row);
        if (weights_.has_zeros) add_up(a + row * k, count, own);
        ops_.multiply(weights_, a + row * k, k, count, own, c + row * n, n, begin, end);
      }
    } else {
      for (int64_t panel = begin; panel < end; ++panel) {
        ops_.cast(weights_, panel, own);
        ops_.multiply_floats(weights_, a, k, m_, own, c, n, panel);
      }
    }
    const int64_t column = begin * ops_.columns, count = std::min(n, end * ops_.columns) - column;
    for (int64_t row = 0; row < m_; ++row) finish(c, inputs, row * n + column, column, count);
  }

 private:
  /// Sums of rows over each block.
  void add_up(const float* a, int64_t count, float* sums) const {
    const int64_t blocks = block_count(weights_);
    for (int64_t row = 0; row < count; ++row)
      for (int64_t at = 0; at < blocks; ++at) {
        const float* const from = a + row * weights_.k + at * weights_.block;
        const int64_t steps = std::min(weights_.block, weights_.k - at * weights_.block);
        float sum = 0;
        for (int64_t step = 0; step < steps; ++step) sum += from[step];
        sums[row * blocks + at] = sum;
      }
  }
  void finish(float* c, std::byte* const* inputs, int64_t at, int64_t column, int64_t count) const {
    float* const y = c + at;
    if (bias_)
      rows_.binary(expr::Id::Add, y, y, 1, reinterpret_cast<const float*>(inputs[slots::bias]) + column, 1, count);
    const float* residual =
        epilogue_.residual == Residual::none ? nullptr : reinterpret_cast<const float*>(inputs[slots::residual]) + at;
    if (epilogue_.residual == Residual::before) rows_.binary(expr::Id::Add, y, y, 1, residual, 1, count);
    if (epilogue_.act != expr::Id::Identity) rows_.unary(epilogue_.act, epilogue_.alpha, epilogue_.beta, y, y, count);
    if (epilogue_.residual == Residual::after) rows_.binary(expr::Id::Add, y, y, 1, residual, 1, count);
  }

  const BlockWeightOps& ops_;
  const RowOps& rows_;
  BlockWeights weights_;
  Packed packed_;
  Epilogue epilogue_;
  int threads_;
  bool bias_;
  int64_t m_;
  size_t own_;
};

template <bool kRows>
Reason refuses(const Problem& problem) {
  if (problem.outputs[0].dtype != DType::f32) return {Reason::element_type, "results", "f32"};
  constexpr int64_t most_rows = 64;  // with more, casting weights anew for each few is slower than keeping a panel
  for (const size_t input : {slots::data, slots::bias, slots::residual})
    if (has(problem, input) && problem.inputs[input].dtype != DType::f32) return {Reason::element_type, "data", "f32"};
  for (const size_t input : {slots::weights, slots::scales, slots::zero_points})
    if (has(problem, input) && !problem.inputs[input].constant) return {Reason::not_constant, "weights and scales"};
  if (problem.inputs[slots::scales].dtype == DType::bf16) return {Reason::element_type, "scales", "f32 or f16"};
  const int64_t rows = problem.inputs[slots::data].dims.elements() / problem.node->integer("k", 1);
  if (rows == 0) return Reason::empty;
  return kRows && rows > most_rows ? Reason(Reason::too_many, most_rows, "rows") : Reason();
}
template <bool kRows>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<WeightOnlyStep<kRows>>(problem);
}

const backends::KernelRegistrar rows({"tenon:WeightOnlyMatMul", "rows", 2, refuses_any<refuses<true>>,
                                      make_any<make<true>>, "block_weights"});
const backends::KernelRegistrar panels({"tenon:WeightOnlyMatMul", "panels", 1, refuses_any<refuses<false>>,
                                        make_any<make<false>>, "block_weights direct"});

}  // namespace
}  // namespace tenon::cpu::weight_only
