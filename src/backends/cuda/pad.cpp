#include <cstring>

#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

constexpr size_t most_axes = 6;

/// As kernels/pad.cu has it.
struct Params {
  Address x, y;
  int64_t xs[most_axes], ys[most_axes];
  int sizes[most_axes], before[most_axes];
  unsigned dims[most_axes], count;
  uint64_t fill;
};

enum Mode { constant, edge, reflect, wrap };

/// Elements to put before each axis; negative ones are cut off.
const char* before_of(const Problem& problem, std::vector<int64_t>& before) {
  const Tensor& pads = problem.inputs[1].constant;
  const bool some = problem.inputs.size() > 3 && problem.inputs[3];
  if (!pads || pads.dtype() != DType::i64 || (some && !problem.inputs[3].constant)) return "its pads are not constant";
  const auto rank = static_cast<int64_t>(problem.inputs[0].dims.rank());
  before.assign(static_cast<size_t>(rank), 0);
  for (int64_t at = 0; at < pads.elements() / 2; ++at) {
    int64_t axis = at;
    if (some) {
      const Tensor& axes = problem.inputs[3].constant;
      axis = axes.dtype() == DType::i32 ? axes.data<int32_t>()[at] : axes.data<int64_t>()[at];
    }
    before[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = pads.data<int64_t>()[at];
  }
  return nullptr;
}

Mode mode_of(const Problem& problem) {
  const std::string mode = problem.node->text("mode", "constant");
  return mode == "edge" ? edge : mode == "reflect" ? reflect : mode == "wrap" ? wrap : constant;
}

const char* refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const size_t size = size_of(x.dtype);
  if (size != 1 && size != 2 && size != 4 && size != 8) return "only types of 1, 2, 4 or 8 bytes";
  if (x.dims.rank() > most_axes || x.dims.rank() == 0) return "too many axes";
  if (x.dims.elements() == 0) return "nothing to pad";
  if (y.dims.elements() >= int64_t{1} << 31 || x.dims.elements() >= int64_t{1} << 31) return "too large";
  const bool filled = problem.inputs.size() > 2 && problem.inputs[2];
  if (filled && !problem.inputs[2].constant) return "what it pads with is not constant";
  if (filled && problem.inputs[2].dtype != x.dtype && !(is_narrow(x.dtype) && problem.inputs[2].dtype == DType::f32))
    return "what it pads with is of another type";
  std::vector<int64_t> before;
  return before_of(problem, before);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t size = size_of(problem.inputs[0].dtype);
  const char* type = size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64";
  const std::string mode = std::to_string(mode_of(problem));
  return {{"pad", {{"pad.cu", {std::string("ELEMENT=") + type, "MODE=" + mode}, ""}}, {}}};
}

class PadStep : public Step {
 public:
  PadStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "pad")) {
    const Operand &x = problem.inputs[0], &y = problem.outputs[0];
    std::vector<int64_t> before;
    before_of(problem, before);
    const size_t gap = most_axes - x.dims.rank();
    for (size_t at = 0; at < most_axes; ++at) {
      const bool real = at >= gap;
      params_.xs[at] = real ? x.strides[at - gap] : 0, params_.ys[at] = real ? y.strides[at - gap] : 0;
      params_.sizes[at] = real ? static_cast<int>(x.dims[at - gap]) : 1;
      params_.before[at] = real ? static_cast<int>(before[at - gap]) : 0;
      params_.dims[at] = real ? static_cast<unsigned>(y.dims[at - gap]) : 1;
    }
    params_.count = static_cast<unsigned>(y.dims.elements());
    if (problem.inputs.size() < 3 || !problem.inputs[2]) return;
    const Tensor& fill = problem.inputs[2].constant;
    if (fill.dtype() == x.dtype) std::memcpy(&params_.fill, fill.data(), size_of(x.dtype));
    else params_.fill = narrow_of(*fill.data<float>(), x.dtype);
  }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, {ceil_div(params.count, 256), 1, 1, 256, 0}, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_{};
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<PadStep>(problem, device, tactic);
}

const KernelRegistrar registered({"Pad", "pad", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
