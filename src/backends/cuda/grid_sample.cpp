#include "backends/cuda/convolution.h"

namespace tenon::cuda {
namespace {

/// As kernels/grid_sample.cu has it.
struct Params {
  Address x, grid, y;
  int64_t xs[4], gs[4], ys[4];
  int channels, in_h, in_w, out_h, out_w;
  unsigned count;
};

bool is_nearest(const ir::Node& node) { return node.text("mode", "linear") == "nearest"; }

const char* refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &grid = problem.inputs[1], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(grid.dtype) || x.dtype != y.dtype) return "only f32, f16 and bf16";
  if (x.dims.rank() != 4) return "only two spatial axes";
  const std::string mode = problem.node->text("mode", "linear");
  if (mode != "linear" && mode != "bilinear" && mode != "nearest") return "only the nearest pixel and linear";
  if (x.dims.elements() == 0) return "nothing to sample";
  return y.dims.elements() >= int64_t{1} << 31 ? "too large" : nullptr;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const ir::Node& node = *problem.node;
  const std::string padding = node.text("padding_mode", "zeros");
  Source source{"grid_sample.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define_type("PLACE", problem.inputs[1].dtype),
                    define("NEAREST", is_nearest(node)),
                    define("PADDING", padding == "border"       ? 1
                                      : padding == "reflection" ? 2
                                                                : 0),
                    define("CORNERS", node.integer("align_corners", 0) != 0)};
  return {{"sample", {source}, {}}};
}

class GridSampleStep : public Step {
 public:
  GridSampleStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "grid_sample")) {
    const Operand &x = problem.inputs[0], &grid = problem.inputs[1], &y = problem.outputs[0];
    for (size_t at = 0; at < 4; ++at)
      params_.xs[at] = x.strides[at], params_.gs[at] = grid.strides[at], params_.ys[at] = y.strides[at];
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.channels = number(y.dims[1]), params_.in_h = number(x.dims[2]), params_.in_w = number(x.dims[3]);
    params_.out_h = number(y.dims[2]), params_.out_w = number(y.dims[3]);
    params_.count = static_cast<unsigned>(y.dims.elements());
  }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.grid = at.inputs[1], params.y = at.outputs[0];
    launch(device_, function_, {ceil_div(params.count, 256), 1, 1, 256, 0}, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_{};
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<GridSampleStep>(problem, device, tactic);
}

const KernelRegistrar registered({"GridSample", "sample", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
