// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_only.h"

#include <algorithm>

#include "backends/cpu/kernels/f32/block_weights.h"
#include "backends/cpu/row_epilogue.h"
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

/// Each worker multiplies all rows by panels of its own: one row at a time, as integers; few rows at a time, with
/// weights cast in registers; or all, with the panel's floats in between.
enum class Way : uint8_t { integers, rows, panels };

template <Way kWay>
class WeightOnlyStep : public backends::Step {
 public:
  explicit WeightOnlyStep(const Problem& problem)
      : ops_(block_weight_ops(isa_for(problem))),
        rows_(row_ops(isa_for(problem))),
        weights_(weights_of(problem)),
        packed_(packed(problem, weights_, ops_.columns)),
        epilogue_(*problem.node),
        threads_(problem.threads),
        dots_(has_int8_dot(isa_for(problem))),
        bias_(has(problem, slots::bias)),
        m_(problem.inputs[slots::data].dims.elements() / weights_.k) {
    weights_.packed = packed_->data();
    int64_t floats = kWay == Way::panels ? weights_.k * ops_.columns : kMostRows * block_count(weights_);
    if (kWay == Way::integers) floats += ceil_div(fixed_bytes(weights_), static_cast<int64_t>(sizeof(float)));
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
    if constexpr (kWay == Way::integers) {
      const FixedRow fixed = fixed_row(own + kMostRows * block_count(weights_));
      for (int64_t row = 0; row < m_; ++row)
        if (ops_.fix(weights_, a + row * k, fixed))
          ops_.multiply_fixed(weights_, fixed, dots_, c + row * n, begin, end);
        else multiply(a, row, 1, own, c, begin, end);
    } else if constexpr (kWay == Way::rows) {
      for (int64_t row = 0; row < m_; row += kMostRows)
        multiply(a, row, std::min(kMostRows, m_ - row), own, c, begin, end);
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
  static int64_t fixed_bytes(const BlockWeights& w) {
    return block_count(w) * (whole_steps(w) * kKinds + kKinds * int64_t{sizeof(int32_t)} + int64_t{sizeof(float)});
  }
  FixedRow fixed_row(float* room) const {
    const int64_t blocks = block_count(weights_);
    auto* const sums = reinterpret_cast<int32_t*>(room + blocks);
    return {reinterpret_cast<int8_t*>(sums + blocks * kKinds), sums, room};
  }
  void multiply(const float* a, int64_t row, int64_t count, float* sums, float* c, int64_t begin, int64_t end) const {
    if (weights_.has_zeros) add_up(a + row * weights_.k, count, sums);
    ops_.multiply(weights_, a + row * weights_.k, weights_.k, count, sums, c + row * weights_.n, weights_.n, begin,
                  end);
  }
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
    const float* residual = epilogue_.adds() ? reinterpret_cast<const float*>(inputs[slots::residual]) + at : nullptr;
    epilogue_.channels(rows_, y, residual, column, count);
  }

  const BlockWeightOps& ops_;
  const RowOps& rows_;
  BlockWeights weights_;
  Packed packed_;
  RowEpilogue epilogue_;
  int threads_;
  bool dots_, bias_;
  int64_t m_;
  size_t own_;
};

template <Way kWay>
Reason refuses(const Problem& problem) {
  if (problem.outputs[0].dtype != DType::f32) return {Reason::element_type, "results", "f32"};
  constexpr int64_t most_block = 256;  // whose largest float says how the others are rounded
  constexpr int64_t most_rows = 64;    // with more, casting weights anew for each few is slower than keeping a panel
  for (const size_t input : {slots::data, slots::bias, slots::residual})
    if (has(problem, input) && problem.inputs[input].dtype != DType::f32) return {Reason::element_type, "data", "f32"};
  for (const size_t input : {slots::weights, slots::scales, slots::zero_points})
    if (has(problem, input) && !problem.inputs[input].constant) return {Reason::not_constant, "weights and scales"};
  if (problem.inputs[slots::scales].dtype == DType::bf16) return {Reason::element_type, "scales", "f32 or f16"};
  const int64_t rows = problem.inputs[slots::data].dims.elements() / problem.node->integer("k", 1);
  if (rows == 0) return Reason::empty;
  if (kWay == Way::integers) {
    const BlockWeights w = weights_of(problem);
    if (w.bits != 4) return {Reason::element_type, "weights", "4 bits"};
    if (!block_weight_ops(isa_for(problem)).fix) return Reason::instruction_set;
    if (problem.fused || problem.strict) return {Reason::strict, "f32"};
    if (block_count(w) > 1 && w.block % 8) return {Reason::not_multiple, "blocks", 8};
    if (w.block > most_block) return {Reason::too_large};
    if (rows > kMostRows) return {Reason::too_many, kMostRows, "rows"};
  }
  return kWay == Way::rows && rows > most_rows ? Reason(Reason::too_many, most_rows, "rows") : Reason();
}
template <Way kWay>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  return std::make_unique<WeightOnlyStep<kWay>>(problem);
}

const backends::KernelRegistrar integers({"tenon:WeightOnlyMatMul", "integers", 3, refuses_any<refuses<Way::integers>>,
                                          make_any<make<Way::integers>>, "block_weights fixed_rows"});

const backends::KernelRegistrar rows({"tenon:WeightOnlyMatMul", "rows", 2, refuses_any<refuses<Way::rows>>,
                                      make_any<make<Way::rows>>, "block_weights"});
const backends::KernelRegistrar panels({"tenon:WeightOnlyMatMul", "panels", 1, refuses_any<refuses<Way::panels>>,
                                        make_any<make<Way::panels>>, "block_weights direct"});

}  // namespace
}  // namespace tenon::cpu::weight_only
