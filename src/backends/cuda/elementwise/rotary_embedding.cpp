// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding.h"

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/elementwise/rotary_embedding_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::rotary_embedding {
namespace {

bool has_positions(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &cosines = problem.inputs[1], &sines = problem.inputs[2];
  if (!is_real(x.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (cosines.dtype != sines.dtype || (cosines.dtype != DType::f32 && cosines.dtype != x.dtype))
    return {Reason::element_type, "sines and cosines", "f32, or of the input's type"};
  if (has_positions(problem) && problem.inputs[3].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  if (!x.rows_contiguous()) return {Reason::view, "the input"};
  for (size_t at = 1; at < problem.inputs.size(); ++at)
    if (problem.inputs[at] && !problem.inputs[at].dense()) return {Reason::view, "an operand"};
  if (!problem.outputs[0].rows_contiguous()) return {Reason::view, "a result"};
  const ops::Rotary rotary = ops::rotary_of(*problem.node, x.dims);
  const int64_t least = rotary.half * (has_positions(problem) ? 1 : rotary.batch * rotary.sequence);
  if (rotary.half < 1 || cosines.dims.elements() % rotary.half || cosines.dims.elements() < least ||
      !(sines.dims == cosines.dims))
    return {Reason::shape, "sines and cosines", "one entry for each pair"};
  return x.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source{"rotary_embedding.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define_type("CACHE", problem.inputs[1].dtype),
                    define("INTERLEAVED", problem.node->integer("interleaved", 0))};
  return {{"rotary", {source}, {}}};
}

class RotaryStep : public Step {
 public:
  RotaryStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "rotary_embedding")),
        positions_(has_positions(problem)) {
    const ops::Rotary rotary = ops::rotary_of(*problem.node, problem.inputs[0].dims);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    params_.units = number(rotary.size - rotary.half);  // a pair each, or a number that stays
    params_.count = rotary.rows() * params_.units;
    params_.cached = problem.inputs[1].dims.elements() / rotary.half;
    // Input and output may be parts of wider rows.
    const auto rows = [&](const Dims& strides) {
      if (strides.rank() == 3) return RotaryRows{strides[0], rotary.head_step, strides[1]};
      return RotaryRows{strides[0], strides[1], strides[2]};
    };
    params_.from = rows(problem.inputs[0].strides), params_.to = rows(problem.outputs[0].strides);
    params_.heads = number(rotary.heads), params_.sequence = number(rotary.sequence);
    params_.half = number(rotary.half), params_.size = number(rotary.size);
  }
  void enqueue(const Launch& at) const override {
    RotaryParams params = params_;
    params.x = at.inputs[0], params.cosines = at.inputs[1], params.sines = at.inputs[2], params.y = at.outputs[0];
    if (positions_) params.positions = at.inputs[3];
    launch(device_, function_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool positions_;
  RotaryParams params_{};
};

const KernelRegistrar registered({"RotaryEmbedding", "rotary", 1, refuses, tactics, make_step<RotaryStep>});

}  // namespace
}  // namespace tenon::cuda::rotary_embedding
