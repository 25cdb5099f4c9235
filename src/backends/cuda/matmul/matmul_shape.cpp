// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/matmul.h"

#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::matmul {
namespace {

constexpr int64_t least_rows = 32, most_blocks = 65535;  // of a grid

/// An operand's axes as (batch, rows, columns); a vector is one row of a first operand, one column of a second.
struct Matrix {
  Dims dims, strides;
  Matrix(const Operand& operand, bool column) : dims(operand.dims), strides(operand.strides) {
    if (dims.rank() != 1) return;
    const int64_t size = operand.dims[0], stride = operand.strides[0];
    dims = column ? Dims{size, 1} : Dims{1, size};
    strides = column ? Dims{stride, 0} : Dims{0, stride};
  }
  int64_t size(size_t from_end) const { return dims[dims.rank() - from_end]; }
  int64_t stride(size_t from_end) const { return strides[strides.rank() - from_end]; }
};

class ProductStep : public Step {
 public:
  ProductStep(const Problem& problem, Device& device, Function function, const MatmulParams& params, const Grid& grid,
              bool turned)
      : device_(device),
        function_(function),
        bias_(has_operand(problem, 2)),
        residual_(has_operand(problem, 3)),
        turned_(turned),
        params_(params),
        grid_(grid) {}
  void enqueue(const Launch& at) const override {
    MatmulParams params = params_;
    params.a = at.inputs[turned_ ? 1 : 0], params.b = at.inputs[turned_ ? 0 : 1], params.c = at.outputs[0];
    if (bias_) params.bias = at.inputs[2];
    if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool bias_, residual_, turned_;
  MatmulParams params_;
  Grid grid_;
};

}  // namespace

std::unique_ptr<Step> product_step(const Problem& problem, Device& device, Function function, int rows, int columns,
                                   int threads, int shared_bytes) {
  MatmulParams params{};
  shape_of(problem, params);
  const Grid grid{ceil_div(params.n, columns), ceil_div(params.m, rows),
                  int64_t{params.batch[0]} * params.batch[1] * params.batch[2], threads, shared_bytes};
  return product_step(problem, device, function, params, grid);
}

std::unique_ptr<Step> product_step(const Problem& problem, Device& device, Function function,
                                   const MatmulParams& params, const Grid& grid, bool turned) {
  return std::make_unique<ProductStep>(problem, device, function, params, grid, turned);
}

bool bias_is_by_row(const Problem& problem) {
  return has_operand(problem, 2) && problem.inputs[2].dims.rank() == 2 && problem.inputs[2].dims.back() == 1;
}

Reason shape_of(const Problem& problem, MatmulParams& params) {
  const Operand &a = problem.inputs[0], &b = problem.inputs[1], &c = problem.outputs[0];
  if (problem.node->has("slopes")) return {Reason::activation, "one without slopes"};
  if (!is_real(a.dtype) || b.dtype != a.dtype || (c.dtype != a.dtype && c.dtype != DType::f32))
    return {Reason::element_type, "all operands", "the same f32, f16 or bf16"};
  const Matrix left(a, false), right(b, true);
  params = {};
  if (has_operand(problem, 2) &&
      (problem.inputs[2].dtype != DType::f32 || !problem.inputs[2].dense() ||
       problem.inputs[2].dims.elements() != (bias_is_by_row(problem) ? left.size(2) : right.size(1))))
    return {Reason::shape, "the bias", "one f32 for each column or row"};
  const bool residual = has_operand(problem, 3);
  if (residual && (problem.inputs[3].dtype != c.dtype || !(problem.inputs[3].dims == c.dims)))
    return {Reason::shape, "the residual", "the result's type and sizes"};
  const ops::Epilogue epilogue = conv_epilogue(problem);
  params.alpha = epilogue.alpha, params.beta = epilogue.beta;
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  if (left.size(2) >= int64_t{1} << 31 || right.size(1) >= int64_t{1} << 31 || left.size(1) >= int64_t{1} << 31)
    return Reason::too_large;
  params.m = number(left.size(2)), params.k = number(left.size(1)), params.n = number(right.size(1));
  params.am = left.stride(2), params.ak = left.stride(1), params.bk = right.stride(2), params.bn = right.stride(1);
  // What the result has of rows and columns.
  const bool rows = a.dims.rank() > 1, columns = b.dims.rank() > 1;
  const size_t own = static_cast<size_t>(rows) + static_cast<size_t>(columns);
  if (c.dims.rank() < own) return {Reason::shape, "the result", "the axes of a product"};
  const size_t batch = c.dims.rank() - own;
  params.cm = rows ? c.strides[batch] : 0;
  params.cn = columns ? c.strides[c.dims.rank() - 1] : 0;
  if (residual) {
    const Dims& strides = problem.inputs[3].strides;
    params.rm = rows ? strides[batch] : 0, params.rn = columns ? strides[c.dims.rank() - 1] : 0;
  }
  if (batch > 3) return {Reason::too_many, 3, "axes of a batch"};
  for (size_t at = 0; at < 3; ++at) {
    params.batch[at] = 1;
    if (at + batch < 3) continue;
    const size_t axis = at + batch - 3;  // of the result
    params.batch[at] = number(c.dims[axis]);
    params.c_batch[at] = c.strides[axis];
    if (residual) params.r_batch[at] = problem.inputs[3].strides[axis];
    const auto stride = [&](const Matrix& operand) -> int64_t {
      const size_t from_end = batch - axis + 2;
      if (from_end > operand.dims.rank() || operand.size(from_end) == 1) return 0;
      return operand.stride(from_end);
    };
    params.a_batch[at] = stride(left), params.b_batch[at] = stride(right);
  }
  return params.k == 0 ? Reason(Reason::empty) : Reason();
}

Reason exceeds_grid(const MatmulParams& params) {
  int64_t count = 1;
  for (const int size : params.batch) count *= size;
  return count > most_blocks || ceil_div(params.m, least_rows) > most_blocks ? Reason::too_large : Reason();
}

}  // namespace tenon::cuda::matmul
