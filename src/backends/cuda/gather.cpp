#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/gather.cu has it.
struct Params {
  Address x, at, y;
  int64_t size, inner, indices, count;
};

Params shape_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  int64_t axis = problem.node->integer("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(dims.rank());
  Params params{0, 0, 0, dims[static_cast<size_t>(axis)], 1, problem.inputs[1].dims.elements(),
                problem.outputs[0].dims.elements()};
  for (size_t at = static_cast<size_t>(axis) + 1; at < dims.rank(); ++at) params.inner *= dims[at];
  return params;
}

template <class T>
bool all_inside(const Tensor& indices, int64_t size) {
  for (int64_t at = 0; at < indices.elements(); ++at)
    if (const int64_t index = indices.data<T>()[at]; index < -size || index >= size) return false;
  return true;
}

const char* refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  const size_t bytes = size_of(x.dtype);
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return "only types of 1, 2, 4 or 8 bytes";
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return "only indices of i64 and i32";
  if (!x.dense() || !at.dense() || !y.dense()) return "an operand is a view";
  const int64_t size = shape_of(problem).size;
  if (size == 0) return "nothing to pick from";
  if (at.constant && !(at.dtype == DType::i64 ? all_inside<int64_t>(at.constant, size)
                                              : all_inside<int32_t>(at.constant, size)))
    return "an index is outside";
  return nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t bytes = size_of(problem.inputs[0].dtype);
  const char* type = bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
  const char* index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  return {{"gather",
           {{"gather.cu", {std::string("ELEMENT=") + type, std::string("INDEX=") + index}, ""}},
           {}}};
}

class GatherStep : public Step {
 public:
  GatherStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "gather")), params_(shape_of(problem)) {}
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.at = at.inputs[1], params.y = at.outputs[0];
    launch(device_, function_, {ceil_div(params.count, 256), 1, 1, 256, 0}, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<GatherStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Gather", "gather", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
