// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/matmul/matmul_params.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::matmul {
namespace {

using Params = MatmulParams;

constexpr int64_t tile = 64, low_tile = 32, most_blocks = 65535;

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

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

Reason shape_of(const Problem& problem, Params& params) {
  const Operand &a = problem.inputs[0], &b = problem.inputs[1], &c = problem.outputs[0];
  if (!is_real(a.dtype) || b.dtype != a.dtype || (c.dtype != a.dtype && c.dtype != DType::f32))
    return {Reason::element_type, "all operands", "the same f32, f16 or bf16"};
  const Matrix left(a, false), right(b, true);
  params = {};
  if (has(problem, 2) && (problem.inputs[2].dtype != DType::f32 || !problem.inputs[2].dense() ||
                          problem.inputs[2].dims.elements() != right.size(1)))
    return {Reason::shape, "the bias", "one f32 for each column"};
  const bool residual = has(problem, 3);
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
  int64_t count = 1;
  for (size_t at = 0; at < 3; ++at) {
    params.batch[at] = 1;
    if (at + batch < 3) continue;
    const size_t axis = at + batch - 3;  // of the result
    params.batch[at] = number(c.dims[axis]);
    params.c_batch[at] = c.strides[axis];
    if (residual) params.r_batch[at] = problem.inputs[3].strides[axis];
    count *= c.dims[axis];
    const auto stride = [&](const Matrix& operand) -> int64_t {
      const size_t from_end = batch - axis + 2;
      if (from_end > operand.dims.rank() || operand.size(from_end) == 1) return 0;
      return operand.stride(from_end);
    };
    params.a_batch[at] = stride(left), params.b_batch[at] = stride(right);
  }
  if (count > most_blocks || ceil_div(params.m, low_tile) > most_blocks) return Reason::too_large;
  return params.k == 0 ? Reason(Reason::empty) : Reason();
}

Reason refuses(const Problem& problem, const Properties&) {
  Params params;
  return shape_of(problem, params);
}

/// Whether rows of contiguous elements are read in chunks of 16 bytes.
bool in_chunks(const Operand& operand, int64_t inner, int64_t outer, const int64_t (&batch)[3], int64_t size) {
  const auto chunk = static_cast<int64_t>(16 / size_of(operand.dtype));
  return operand.aligned && inner == 1 && outer % chunk == 0 && size % chunk == 0 &&
         std::all_of(std::begin(batch), std::end(batch), [&](int64_t stride) { return stride % chunk == 0; });
}

std::vector<Tactic> tactics(const Problem& problem, const Properties& properties) {
  Params p;
  shape_of(problem, p);
  const bool narrow = is_16_bit(problem.inputs[0].dtype), has_products = properties.capability() >= 80;
  const std::vector<std::string> defines = [&] {
    std::vector<std::string> words = epilogue_defines(conv_epilogue(problem));
    for (const std::string& word : {define_type("ELEMENT", problem.inputs[0].dtype),
                                    define_type("RESULT", problem.outputs[0].dtype), define("FLOAT16_ELEMENT", narrow),
                                    define("A_K", in_chunks(problem.inputs[0], p.ak, p.am, p.a_batch, p.k)),
                                    define("B_N", in_chunks(problem.inputs[1], p.bn, p.bk, p.b_batch, p.n)),
                                    define("A_FAST", p.am == 1 && p.ak != 1), define("B_FAST", p.bk == 1 && p.bn != 1)})
      words.push_back(word);
    return words;
  }();
  std::vector<Tactic> list;
  const int64_t blocks = ceil_div(p.n, tile) * ceil_div(p.m, tile) * p.batch[0] * p.batch[1] * p.batch[2];
  const bool few = blocks < 2 * properties.multiprocessors;
  const auto add = [&](const std::string& kind, bool products, bool divided) {
    for (const int64_t rows : {few ? low_tile : tile, few ? tile : low_tile}) {
      Source source{"matmul.cu", defines, ""};
      if (products && !narrow) source = source_from({"tf32.cuh", "matmul.cu"}, defines);
      if (products && !narrow) source.defines.push_back(define("DIVIDED", divided));
      source.defines.push_back(define("PRODUCTS", products));
      source.defines.push_back(define("BM", rows));
      const int threads = products || narrow || rows == low_tile ? 128 : 256;
      list.push_back({kind + std::to_string(rows) + "x64", {source}, {static_cast<int>(rows), threads}});
    }
  };
  if (!narrow && has_products && problem.tf32) add("matrices tf32 ", true, false);
  if (!narrow && has_products && !problem.tf32 && !problem.strict) add("matrices 3xtf32 ", true, true);
  add("matrices ", narrow && has_products, false);
  return list;
}

class MatMulStep : public Step {
 public:
  MatMulStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "matmul")),
        bias_(has(problem, 2)),
        residual_(has(problem, 3)) {
    shape_of(problem, params_);
    grid_ = {ceil_div(params_.n, tile), ceil_div(params_.m, tactic.numbers[0]),
             int64_t{params_.batch[0]} * params_.batch[1] * params_.batch[2], tactic.numbers[1], 0};
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.a = at.inputs[0], params.b = at.inputs[1], params.c = at.outputs[0];
    if (bias_) params.bias = at.inputs[2];
    if (residual_) params.residual = at.inputs[3];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool bias_, residual_;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"MatMul", "matrices", 0, refuses, tactics, make_step<MatMulStep>});

}  // namespace
}  // namespace tenon::cuda::matmul
