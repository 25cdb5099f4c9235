// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "backends/kernel.h"
#include "backends/cpu/weights_f32.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/f32/panels.h"
#include "backends/cpu/row_epilogue.h"
#include "backends/cpu/kernels/support.h"
#include "ops/op.h"

namespace tenon::cpu::product {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// MatMul and Gemm of any operands: matrices of a batch, in blocks of rows.
class ProductStep : public backends::Step {
 public:
  explicit ProductStep(const Problem& problem)
      : epilogue_(*problem.node), threads_(problem.threads), isa_(isa_for(problem)), ops_(row_ops(isa_)) {
    Dims a = problem.inputs[0].dims, b = problem.inputs[1].dims;
    Dims a_steps = problem.inputs[0].strides, b_steps = problem.inputs[1].strides;
    if (ops::has_trait(problem.node->op, ops::Trait::general_product)) {
      shape_.trans_a = problem.node->integer("transA", 0), shape_.trans_b = problem.node->integer("transB", 0);
      alpha_ = problem.node->real("alpha", 1), beta_ = problem.node->real("beta", 1);
    }
    if (a.rank() == 1) a_steps.insert(0, a[0]), a.insert(0, 1);
    if (b.rank() == 1) b_steps.push_back(1), b.push_back(1);
    const size_t ra = a.rank(), rb = b.rank();
    shape_.m = a[ra - (shape_.trans_a ? 1 : 2)], shape_.k = a[ra - (shape_.trans_a ? 2 : 1)],
    shape_.n = b[rb - (shape_.trans_b ? 2 : 1)];
    shape_.lda = a_steps[ra - 2], shape_.ldb = b_steps[rb - 2];
    // The batch, row-major, with where the matrices of each entry begin.
    const size_t rank = std::max(ra, rb) - 2;
    const auto size = [&](const Dims& dims, size_t axis) {
      return axis + dims.rank() < rank + 2 ? int64_t{1} : dims[axis + dims.rank() - rank - 2];
    };
    Dims y;
    int64_t batch = 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      y.push_back(std::max(size(a, axis), size(b, axis)));
      batch *= y.back();
    }
    y.push_back(shape_.m), y.push_back(shape_.n);
    const auto steps_of = [&](const Operand& operand) {
      return operand.dims == y ? operand.strides : backends::dense_strides(y);
    };
    const Dims y_steps = steps_of(problem.outputs[0]),
               other_steps = problem.inputs.size() > 3 ? steps_of(problem.inputs[3]) : y_steps;
    shape_.ldc = y_steps[rank], residual_row_ = other_steps[rank];
    for (int64_t at = 0; at < batch; ++at) {
      int64_t rest = at;
      Matrices place{};
      for (size_t axis = rank; axis-- > 0;) {
        const int64_t index = rest % y[axis];
        rest /= y[axis];
        if (size(a, axis) > 1) place.a += index * a_steps[axis + ra - rank - 2];
        if (size(b, axis) > 1) place.b += index * b_steps[axis + rb - rank - 2];
        place.y += index * y_steps[axis], place.residual += index * other_steps[axis];
      }
      matrices_.push_back(place);
    }
    // By the shape alone, so that results do not depend on the workers.
    const int64_t most = std::clamp<int64_t>((shape_.m * batch / 4 + 15) / 16 * 16, 16, 96);
    const int64_t blocks = std::max<int64_t>(1, (shape_.m + most - 1) / most);
    block_ = std::max<int64_t>(1, (shape_.m + blocks - 1) / blocks);
    GemmShape one = shape_;
    together_ = std::max<int64_t>(1, most_together / std::max<int64_t>(1, block_ * shape_.k));
    one.m = std::min(block_ * std::min(together_, blocks), shape_.m);
    const int64_t columns = panel_columns(isa_), whole = (shape_.n + columns - 1) / columns * columns * shape_.k;
    whole_ = !shape_.trans_a && whole <= most_together;
    const auto floats = whole_ ? static_cast<size_t>(whole) : gemm_workspace_floats(isa_, one);
    workspace_ = set_apart(floats * sizeof(float)) / sizeof(float);
    if (problem.inputs.size() > 2 && problem.inputs[2]) {
      const Operand& c = problem.inputs[2];
      c_row_ = c.dims.rank() > 1 && c.dims[c.dims.rank() - 2] > 1 ? c.dims.back() : 0;
      c_column_ = c.dims.rank() > 0 && c.dims.back() > 1 ? 1 : 0;
      has_c_ = true;
    }
  }
  size_t workspace_bytes() const override { return workspace_ * sizeof(float) * static_cast<size_t>(threads_); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    float* workspace = reinterpret_cast<float*>(worker.workspace) + workspace_ * static_cast<size_t>(worker.id);
    const int64_t blocks = (shape_.m + block_ - 1) / block_;
    int64_t begin, end;
    worker.share(static_cast<int64_t>(matrices_.size()) * blocks, begin, end);
    const float* packed = nullptr;  // what lies in the workspace
    for (int64_t unit = begin, next; unit < end; unit = next) {
      const Matrices& place = matrices_[static_cast<size_t>(unit / blocks)];
      const int64_t first = unit % blocks * block_;
      next = std::min({end, unit + (whole_ ? 1 : together_), unit - unit % blocks + blocks});
      GemmShape part = shape_;
      part.m = std::min(block_ * (next - unit), shape_.m - first);
      float* to = y + place.y + first * shape_.ldc;
      const float* rows = a + place.a + first * (shape_.trans_a ? 1 : shape_.lda);
      const float* other = b + place.b;
      if (whole_) multiply(rows, part.m, other, std::exchange(packed, other) != other, to, workspace);
      else gemm(isa_, part, rows, other, to, nullptr, workspace);
      for (int64_t row = 0; row < part.m; ++row) finish(to + row * shape_.ldc, first + row, inputs, place.residual);
    }
  }

 private:
  /// Rows by all panels of a matrix, which are packed first where they are not there yet.
  void multiply(const float* rows, int64_t count, const float* b, bool pack, float* to, float* panels) const {
    const int64_t columns = panel_columns(isa_);
    for (int64_t first = 0; first < shape_.n; first += columns) {
      float* panel = panels + first * shape_.k;
      if (pack) pack_panel(isa_, b, shape_.ldb, shape_.trans_b, shape_.n, shape_.k, first, 1, panel);
      multiply_panel(isa_, rows, shape_.lda, count, panel, shape_.k, to + first, shape_.ldc,
                     std::min(columns, shape_.n - first));
    }
  }
  void finish(float* row, int64_t at, std::byte* const* inputs, int64_t residual_at) const {
    const int64_t n = shape_.n;
    if (alpha_ != 1) ops_.scale(row, alpha_, n);
    if (has_c_ && beta_ != 0) {
      const float* c = reinterpret_cast<const float*>(inputs[2]) + at * c_row_;
      if (beta_ == 1) ops_.binary(expr::Id::Add, row, row, 1, c, c_column_, n);
      else if (c_column_) ops_.blend(row, row, 1, c, beta_, n);
      else {
        const float scaled = *c * beta_;
        ops_.binary(expr::Id::Add, row, row, 1, &scaled, 0, n);
      }
    }
    const float* residual =
        epilogue_.adds() ? reinterpret_cast<const float*>(inputs[3]) + residual_at + at * residual_row_ : nullptr;
    epilogue_.channels(ops_, row, residual, 0, n);
  }

  GemmShape shape_{};
  RowEpilogue epilogue_;
  int threads_;
  Isa isa_;
  const RowOps& ops_;
  float alpha_ = 1, beta_ = 1;
  struct Matrices {
    int64_t a, b, y, residual;  // elements before each
  };
  std::vector<Matrices> matrices_;
  int64_t residual_row_;
  static constexpr int64_t most_together = 1 << 18;  // elements that stay in a second cache
  bool whole_;                                       // the other matrix is packed as a whole, once for all blocks
  int64_t block_;                                    // rows of one matrix that workers share
  int64_t together_;  // so many such blocks go by the same panel of the other matrix before the next one is packed
  size_t workspace_;
  bool has_c_ = false;
  int64_t c_row_ = 0;
  int c_column_ = 0;
};

Reason refuses(const Problem& problem) {
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  if (problem.inputs[0].dims.elements() == 0 || problem.inputs[1].dims.elements() == 0) return Reason::empty;
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ProductStep>(problem); }

/// Rows of matrices may lie apart; of other views there are copies.
bool lies_in_rows(const Problem& problem) {
  const Operand& y = problem.outputs[0];
  const auto in_rows = [](const Operand& operand) { return operand.dims.rank() > 1 && operand.rows_contiguous(); };
  if (!in_rows(problem.inputs[0]) || !in_rows(problem.inputs[1]) || !in_rows(y)) return false;
  if (problem.inputs.size() > 2 && problem.inputs[2] && !problem.inputs[2].dense()) return false;
  return problem.inputs.size() < 4 || (problem.inputs[3].dims == y.dims && in_rows(problem.inputs[3]));
}
std::unique_ptr<backends::Step> make_rows(const Problem& problem) {
  return lies_in_rows(problem) ? make(problem) : make_any<make>(problem);
}

const backends::KernelRegistrar matmul({"MatMul", "blocks", 0, refuses_any<refuses>, make_cast<make_rows>, "direct"});
const backends::KernelRegistrar product({"Gemm", "blocks", 0, refuses_any<refuses>, make_cast<make_rows>, "direct"});

}  // namespace
}  // namespace tenon::cpu::product
