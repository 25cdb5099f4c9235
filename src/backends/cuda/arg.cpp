#include "backends/cuda/convolution.h"
#include "backends/cuda/lines.h"

namespace tenon::cuda {
namespace {

/// As kernels/arg.cu has it.
struct Params {
  Address x, y;
  int64_t inner, lines;
  int size;
};

constexpr int64_t long_line = 4096;

const char* refuses(const Problem& problem, const Properties&) {
  Lines lines;
  return lines_of(problem, 0, lines);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Lines lines;
  lines_of(problem, 0, lines);
  const int lanes = lines.inner > 1 ? 1 : lines.size < long_line ? 32 : 256;
  Source source{"arg.cu", {}, std::string(kernel_text("rank.cuh")) + std::string(kernel_text("arg.cu"))};
  source.defines = {define_type("TX", problem.inputs[0].dtype),
                    define("LARGEST", problem.node->op == "ArgMax"),
                    define("LAST", problem.node->integer("select_last_index", 0)),
                    define("LANES", lanes),
                    define("THREADS", 256),
                    define("RANKED", 1)};
  return {{"arg", {source}, {lanes}}};
}

class ArgStep : public Step {
 public:
  ArgStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "arg")) {
    Lines lines;
    lines_of(problem, 0, lines);
    params_ = {0, 0, lines.inner, lines.outer * lines.inner, static_cast<int>(lines.size)};
    grid_ = {ceil_div(params_.lines * tactic.numbers[0], 256), 1, 1, 256, 0};
  }
  void enqueue(const Launch& at) override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    launch(device_, function_, grid_, at.stream, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_{};
  Grid grid_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return std::make_unique<ArgStep>(problem, device, tactic);
}

const KernelRegistrar largest({"ArgMax", "arg", 1, refuses, tactics, make});
const KernelRegistrar smallest({"ArgMin", "arg", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
