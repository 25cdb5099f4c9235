// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/group_norm_params.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::group_norm {
namespace {

using Params = GroupNormParams;

constexpr int64_t each_part = 4096;  // elements of a group that a block takes, where there are not too many
constexpr int64_t most_parts = 64, most_rows = 65535;

int64_t groups_of(const Problem& problem, int64_t channels) { return problem.node->integer("num_groups", channels); }

bool channels_last(const Problem& problem) { return problem.node->text("layout", "") == "NHWC"; }

int64_t channels_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  return dims[channels_last(problem) && dims.rank() > 2 ? dims.rank() - 1 : 1];
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!x.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() < 2 || x.dims.elements() == 0) return Reason::empty;
  const int64_t channels = channels_of(problem), groups = groups_of(problem, channels);
  for (size_t at : {size_t{1}, size_t{2}}) {
    const Operand& list = problem.inputs[at];
    if (list.dtype != DType::f32 || !list.dense()) return {Reason::element_type, "scale and bias", "f32"};
    if (list.dims.elements() != channels && list.dims.elements() != groups)
      return {Reason::shape, "scale and bias", "an entry for each channel or group"};
  }
  if (problem.inputs[1].dims.elements() != problem.inputs[2].dims.elements())
    return {Reason::shape, "scale and bias", "the same size"};
  return x.dims[0] * groups > most_rows ? Reason(Reason::too_many, most_rows, "groups") : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source{"group_norm.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define("LAST", channels_last(problem))};
  return {{"groups", {source}, {}}};
}

/// Sums of parts of each group, then the results: two launches.
class GroupNormStep : public Step {
 public:
  GroupNormStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        sums_(device.function(tactic.sources[0], "part_sums")),
        results_(device.function(tactic.sources[0], "group_norm")) {
    const Dims& dims = problem.inputs[0].dims;
    const int64_t channels = channels_of(problem), groups = groups_of(problem, channels);
    params_.plane = dims.elements() / dims[0] / channels;
    params_.count = params_.plane * (channels / groups);
    params_.channels = static_cast<int>(channels), params_.group = static_cast<int>(channels / groups);
    params_.groups = static_cast<int>(groups);
    params_.share = static_cast<int>(channels / problem.inputs[1].dims.elements());
    params_.most = static_cast<int>(std::clamp<int64_t>(ceil_div(params_.count, each_part), 1, most_parts));
    params_.epsilon = static_cast<float>(problem.node->real("epsilon", 1e-5f));
    grid_ = {params_.most, dims[0] * groups, 1, 256, 0};
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(grid_.x * grid_.y) * 2 * sizeof(float); }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.scale = at.inputs[1], params.bias = at.inputs[2], params.y = at.outputs[0];
    params.parts = at.workspace;
    launch(device_, sums_, grid_, at, params);
    launch(device_, results_, grid_, at, params);
  }

 private:
  Device& device_;
  Function sums_, results_;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"InstanceNormalization", "GroupNormalization"},
                                 {"", "groups", 1, refuses, tactics, make_step<GroupNormStep>});

}  // namespace
}  // namespace tenon::cuda::group_norm
