// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/reduce.h"
#include "backends/cuda/reduction/reduce_any_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

/// What the faster reductions leave: products and logarithms, integers, axes that are no neighbours.
namespace tenon::cuda::reduce_any {
namespace {

using Params = ReduceAnyParams;

/// As reduce_any.cu numbers them; those before have kernels of their own.
constexpr int first_own = 7;
int kind_of(ops::Reduction reduction) {
  switch (reduction) {
    case ops::Reduction::product: return 7;
    case ops::Reduction::log_sum: return 8;
    case ops::Reduction::log_sum_exp: return 9;
    default: return reduce::kind_of(reduction);
  }
}

bool is_whole(DType type) { return type == DType::i64 || type == DType::i32; }

/// Of integers as integers.
bool stays_whole(ops::Reduction reduction) {
  using enum ops::Reduction;
  return reduction == sum || reduction == product || reduction == largest || reduction == smallest || reduction == l1 ||
         reduction == squares;
}

Reason refuses(const Problem& problem, const Properties& properties) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const ops::Reduction reduction = ops::traits_of(problem.node->op).reduction();
  if (kind_of(reduction) < first_own && !reduce::refuses(problem, properties)) return Reason::other_kernel;
  const bool whole = is_whole(x.dtype) && x.dtype == y.dtype && stays_whole(reduction);
  if (!whole && !(is_real(x.dtype) && is_real(y.dtype)))
    return {Reason::element_type, "elements", "f32, f16, bf16, or i64 or i32 in a reduction of integers"};
  if (!y.dense()) return {Reason::view, "a result"};
  const auto axes = reduce::axes_of(problem);
  if (!axes) return {Reason::not_constant, "its axes"};
  if (axes->empty()) return {Reason::form, "reduction of an axis"};
  if (x.dims.elements() == 0) return Reason::empty;
  return x.dims.elements() >= int64_t{1} << 32 ? Reason(Reason::too_large) : Reason();
}

struct Sizes {
  Params params{};
  int kept = 0, reduced = 0;

  explicit Sizes(const Problem& problem) {
    const Operand& x = problem.inputs[0];
    const auto axes = *reduce::axes_of(problem);
    params.count = params.length = 1;
    for (size_t axis = 0; axis < x.dims.rank(); ++axis) {
      const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
      const auto size = static_cast<unsigned>(x.dims[axis]);
      (gone ? params.length : params.count) *= size;
      if (size == 1) continue;
      int& at = gone ? reduced : kept;
      (gone ? params.reduced : params.kept)[at] = size;
      (gone ? params.reduced_strides : params.kept_strides)[at++] = x.strides[axis];
    }
  }
};

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Sizes sizes(problem);
  const DType type = problem.inputs[0].dtype;
  Source source{"reduce_any.cu", {}, ""};
  source.defines = {define_type("TX", type),
                    define_type("TY", problem.outputs[0].dtype),
                    std::string("WIDE=") + (is_whole(type) ? "i64" : "float"),
                    define("WHOLE", is_whole(type)),
                    define("OP", kind_of(ops::traits_of(problem.node->op).reduction())),
                    define("KEPT", sizes.kept),
                    define("REDUCED", sizes.reduced)};
  return {{"any", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Sizes sizes(problem);
  return simple_step<1>(device, tactic, "reduce_any", sizes.params, {ceil_div(sizes.params.count, 8), 1, 1, 256, 0});
}

struct Register {
  Register() {
    for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp"})
      KernelRegistrar({op, "any", 0, refuses, tactics, make});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cuda::reduce_any
