#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/softmax.cu has it.
struct Params {
  Address x, y;
  int64_t rows, length, inner;
};

Params shape_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  int64_t axis = problem.node->integer("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(dims.rank());
  Params params{0, 0, 1, dims[static_cast<size_t>(axis)], 1};
  for (size_t at = 0; at < dims.rank(); ++at) {
    if (static_cast<int64_t>(at) == axis) continue;
    params.rows *= dims[at];
    if (static_cast<int64_t>(at) > axis) params.inner *= dims[at];
  }
  return params;
}

/// Lanes that share a row.
int lanes_of(const Params& params) {
  int lanes = params.inner > 1 ? 1 : 4;
  while (params.inner == 1 && lanes < params.length && lanes < 32) lanes *= 2;
  return lanes;
}

/// The length where a thread holds a whole row; else 0.
int64_t short_of(const Problem& problem) {
  const Params params = shape_of(problem);
  const auto chunk = static_cast<int64_t>(16 / size_of(problem.inputs[0].dtype));
  const bool fits = params.inner == 1 && params.length <= 32 && params.length % chunk == 0 &&
                    problem.inputs[0].aligned && problem.outputs[0].aligned;
  return fits ? params.length : 0;
}

const char* refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return "only f32, f16 and bf16";
  if (x.dims.rank() == 0) return "a scalar";
  return x.dense() && y.dense() ? nullptr : "its rows are not contiguous";
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source{"softmax.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define("LANES", lanes_of(shape_of(problem))),
                    define("LOG", problem.node->op == "LogSoftmax"), define("SHORT", short_of(problem))};
  return {{"softmax", {source}, {}}};
}

class SoftmaxStep : public Step {
 public:
  SoftmaxStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "softmax")), params_(shape_of(problem)) {
    const int lanes = short_of(problem) ? 1 : lanes_of(params_);
    grid_ = {ceil_div(params_.rows, 256 / lanes), 1, 1, 256, 0};
  }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_;
  Grid grid_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<SoftmaxStep>(problem, device, tactic);
}

const KernelRegistrar softmax({"Softmax", "softmax", 1, refuses, tactics, make});
const KernelRegistrar log_softmax({"LogSoftmax", "softmax", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
