#include "backends/backend.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/rows.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;

class SoftmaxStep : public backends::Step {
 public:
  explicit SoftmaxStep(const Problem& problem)
      : count_(problem.inputs[0].dims.back()),
        rows_(problem.inputs[0].dims.elements() / count_),
        ops_(row_ops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) override {
    int64_t begin, end;
    worker.share(rows_, begin, end);
    for (int64_t row = begin; row < end; ++row)
      ops_.softmax(reinterpret_cast<float*>(outputs[0]) + row * count_,
                   reinterpret_cast<const float*>(inputs[0]) + row * count_, count_);
  }

 private:
  int64_t count_, rows_;
  const RowOps& ops_;
};

const char* refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return "only f32";
  if (x.dims.rank() == 0 || x.dims.elements() == 0) return "nothing to do";
  const int64_t rank = static_cast<int64_t>(x.dims.rank()), axis = problem.node->integer("axis", -1);
  if ((axis < 0 ? axis + rank : axis) != rank - 1) return "only along the last axis";
  return x.dense() && y.dense() ? nullptr : "operands are views";
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<SoftmaxStep>(problem); }

const backends::KernelRegistrar registered({"Softmax", "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu
