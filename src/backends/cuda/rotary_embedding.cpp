// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding.h"

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda {
namespace {

/// As rotary_embedding.cu has it.
template <size_t Inputs>
struct Params {
  Address inputs[Inputs], y;
  int64_t count, cached;
  int64_t head_step, row_step, whole;
  int heads, sequence, half, units, size;
};

bool has_positions(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &cosines = problem.inputs[1], &sines = problem.inputs[2];
  if (!is_real(x.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (cosines.dtype != sines.dtype || (cosines.dtype != DType::f32 && cosines.dtype != x.dtype))
    return {Reason::element_type, "sines and cosines", "f32, or of the input's type"};
  if (has_positions(problem) && problem.inputs[3].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  for (const Operand& operand : problem.inputs)
    if (operand && !operand.dense()) return {Reason::view, "an operand"};
  if (!problem.outputs[0].dense()) return {Reason::view, "a result"};
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
                    define("POSITIONS", has_positions(problem)),
                    define("INTERLEAVED", problem.node->integer("interleaved", 0))};
  return {{"rotary", {source}, {}}};
}

template <size_t Inputs>
std::unique_ptr<Step> make_of(const Problem& problem, Device& device, const Tactic& tactic) {
  const ops::Rotary rotary = ops::rotary_of(*problem.node, problem.inputs[0].dims);
  const int64_t units = rotary.size - rotary.half;  // a pair each, or a number that stays
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  const Params<Inputs> params{{},
                              0,
                              rotary.rows() * units,
                              problem.inputs[1].dims.elements() / rotary.half,
                              rotary.head_step,
                              rotary.row_step,
                              rotary.heads * rotary.sequence * rotary.size,
                              number(rotary.heads),
                              number(rotary.sequence),
                              number(rotary.half),
                              number(units),
                              number(rotary.size)};
  return simple_step<Inputs>(device, tactic, "rotary_embedding", params, grid_for(params.count));
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  return has_positions(problem) ? make_of<4>(problem, device, tactic) : make_of<3>(problem, device, tactic);
}

const KernelRegistrar registered({"RotaryEmbedding", "rotary", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda
