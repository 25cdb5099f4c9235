// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/topk_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/lines.h"

namespace tenon::cuda::topk {
namespace {

using Params = TopkParams;

constexpr int64_t most_ranked = 4096, few = 1024;

int64_t count_of(const Problem& problem, const Lines& lines) {
  return problem.outputs[0].dims.elements() / (lines.outer * lines.inner);
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 70) return {Reason::capability, "it", "7.0"};
  if (problem.inputs[0].dtype != problem.outputs[0].dtype)
    return {Reason::element_type, "the result", "the input's type"};
  Lines lines;
  return lines_of(problem, -1, lines, false);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Lines lines;
  lines_of(problem, -1, lines, false);
  int64_t ranked = 32;
  while (ranked < std::min(count_of(problem, lines), most_ranked)) ranked *= 2;
  Source source = source_from({"rank.cuh", "topk.cu"});
  source.defines = {define_type("TX", problem.inputs[0].dtype), define("LARGEST", problem.node->integer("largest", 1)),
                    define("THREADS", lines.size <= few ? 128 : 1024), define("RANKED", ranked)};
  return {{"ranking", {source}, {lines.size <= few ? 128 : 1024}}};
}

class TopkStep : public Step {
 public:
  TopkStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device), function_(device.function(tactic.sources[0], "topk")) {
    Lines lines;
    lines_of(problem, -1, lines, false);
    params_.inner = lines.inner, params_.size = static_cast<int>(lines.size);
    params_.k = static_cast<int>(count_of(problem, lines));
    places_ = problem.outputs.size() > 1 && problem.outputs[1];
    const int64_t given = problem.node->integer("axis", -1);
    const size_t axis =
        static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(problem.inputs[0].dims.rank()) : given);
    pitch_of(problem.outputs[0], axis, params_.of_values);
    if (places_) pitch_of(problem.outputs[1], axis, params_.of_places);
    grid_ = {lines.outer * lines.inner, 1, 1, tactic.numbers[0], 0};
  }
  bool reads(size_t input) const override { return input == 0; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.values = at.outputs[0];
    if (places_) params.places = at.outputs[1];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  Params params_{};
  Grid grid_;
  bool places_;
};

const KernelRegistrar registered({"TopK", "ranking", 1, refuses, tactics, make_step<TopkStep>});

}  // namespace
}  // namespace tenon::cuda::topk
