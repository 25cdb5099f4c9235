#include "backends/cuda/kernel.h"

namespace tenon::cuda {
namespace {

constexpr size_t most_axes = 6;

/// As kernels/gather_elements.cu has it.
struct Params {
  Address x, at, y;
  int64_t xs[most_axes], as[most_axes], ys[most_axes];
  int64_t size, step;
  unsigned dims[most_axes], count;
};

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

const char* refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  const size_t bytes = size_of(x.dtype);
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return "only types of 1, 2, 4 or 8 bytes";
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return "only indices of i64 and i32";
  if (x.dims.rank() > most_axes || x.dims.rank() == 0) return "too many axes";
  if (x.dims.elements() == 0) return "nothing to pick from";
  return y.dims.elements() >= int64_t{1} << 31 ? "too large" : nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t bytes = size_of(problem.inputs[0].dtype);
  const char* type = bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
  const char* index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  return {{"pick", {{"gather_elements.cu", {std::string("ELEMENT=") + type, std::string("INDEX=") + index}, ""}}, {}}};
}

class GatherElementsStep : public Step {
 public:
  GatherElementsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "gather_elements")) {
    const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
    const size_t gap = most_axes - x.dims.rank(), picked = axis_of(problem);
    for (size_t axis = 0; axis < most_axes; ++axis) {
      params_.dims[axis] = 1;
      if (axis < gap) continue;
      const size_t own = axis - gap;
      params_.dims[axis] = static_cast<unsigned>(y.dims[own]);
      params_.xs[axis] = own == picked ? 0 : x.strides[own];
      params_.as[axis] = at.strides[own], params_.ys[axis] = y.strides[own];
    }
    params_.size = x.dims[picked], params_.step = x.strides[picked];
    params_.count = static_cast<unsigned>(y.dims.elements());
  }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.at = at.inputs[1], params.y = at.outputs[0];
    launch(device_, function_, {ceil_div(params.count, 256), 1, 1, 256, 0}, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_{};
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<GatherElementsStep>(problem, device, tactic);
}

const KernelRegistrar registered({"GatherElements", "pick", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
