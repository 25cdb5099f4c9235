// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/detection/nms_params.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::nms {
namespace {

using Params = NmsParams;

constexpr int64_t most_kept = 1024, threads = 256, ranked = 2048;

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

/// Boxes of a class at most.
int64_t most_of(const Problem& problem) {
  const int64_t given = *problem.inputs[2].constant.data<int64_t>();
  return std::clamp<int64_t>(given, 0, problem.inputs[0].dims[1]);
}

Reason refuses(const Problem& problem, const Properties& properties) {
  if (properties.capability() < 70) return {Reason::capability, "it", "7.0"};
  for (size_t at = 0; at < problem.inputs.size(); ++at) {
    if (!has(problem, at)) continue;
    const Operand& operand = problem.inputs[at];
    if (operand.dtype != (at == 2 ? DType::i64 : DType::f32)) return {Reason::element_type, "elements", "f32"};
    if (at < 2 ? !operand.dense() : !operand.constant || operand.dims.elements() != 1)
      return at < 2 ? Reason(Reason::view, "an operand") : Reason(Reason::not_constant, "its limits");
  }
  if (!problem.inputs[0].aligned) return {Reason::unaligned, "boxes"};
  for (const Operand& operand : problem.outputs)
    if (!operand.dense()) return {Reason::view, "a result"};
  if (problem.inputs[1].dims.elements() >= int64_t{1} << 31) return {Reason::too_many, INT32_MAX, "scores"};
  const int64_t most = most_of(problem);
  return most < 1 || most > most_kept ? Reason(Reason::too_many, most_kept, "boxes of a class") : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source = source_from({"rank.cuh", "nms.cu"});
  source.defines = {define("CENTRED", problem.node->integer("center_point_box", 0) != 0),
                    define("LIMITED", has(problem, 4)), define("MOST", most_of(problem)), define("THREADS", threads),
                    define("RANKED", ranked)};
  return {{"nms", {source}, {}}};
}

class NmsStep : public Step {
 public:
  NmsStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        nms_(device.function(tactic.sources[0], "nms")),
        put_together_(device.function(tactic.sources[0], "put_together")) {
    const auto number = [&](size_t at) { return has(problem, at) ? *problem.inputs[at].constant.data<float>() : 0.f; };
    const Dims& scores = problem.inputs[1].dims;
    params_.count = static_cast<int>(scores[2]), params_.classes = static_cast<int>(scores[1]);
    params_.lists = static_cast<int>(scores[0] * scores[1]);
    params_.room = problem.outputs[0].dims[0];
    params_.overlap = number(3), params_.limit = number(4);
    kept_bytes_ = (static_cast<size_t>(params_.lists) * static_cast<size_t>(most_of(problem)) * 4 + 15) / 16 * 16;
  }
  size_t workspace_bytes() const override { return kept_bytes_ + static_cast<size_t>(params_.lists) * 4; }
  bool reads(size_t input) const override { return input < 2; }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.boxes = at.inputs[0], params.scores = at.inputs[1];
    params.kept = at.workspace, params.counts = at.workspace + kept_bytes_;
    params.rows = at.outputs[0], params.total = at.outputs[1];
    const Grid grid{params.lists, 1, 1, static_cast<int>(threads), 0};
    launch(device_, nms_, grid, at, params);
    launch(device_, put_together_, grid, at, params);
  }

 private:
  Device& device_;
  Function nms_, put_together_;
  Params params_{};
  size_t kept_bytes_;
};

const KernelRegistrar registered({"tenon:BoundedNms", "nms", 1, refuses, tactics,
                                  make_step<NmsStep>});

}  // namespace
}  // namespace tenon::cuda::nms
