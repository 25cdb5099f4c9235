// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "backends/cuda/reduction/layer_norm_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "ops/op.h"

namespace tenon::cuda::layer_norm {
namespace {

using Params = LayerNormParams;

constexpr int64_t most_length = 16384;  // a thread holds its part
constexpr int64_t most_early = 24;      // elements of scale and bias that a thread holds from the beginning

bool has(const Problem& problem, size_t at) { return at < problem.inputs.size() && problem.inputs[at]; }

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", -1);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

/// Elements of a row.
int64_t length_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  int64_t length = 1;
  for (size_t at = axis_of(problem); at < dims.rank(); ++at) length *= dims[at];
  return length;
}

/// Elements from one row to the next; nullopt where rows are not contiguous or lie at several distances.
std::optional<int64_t> pitch_of(const Problem& problem, const Operand& operand) {
  const size_t axis = axis_of(problem);
  int64_t run = 1, pitch = 0;
  for (size_t at = operand.dims.rank(); at-- > axis; run *= operand.dims[at])
    if (operand.dims[at] != 1 && operand.strides[at] != run) return std::nullopt;
  for (size_t at = axis; at-- > 0;) {
    if (operand.dims[at] == 1) continue;
    if (pitch && operand.strides[at] != run) return std::nullopt;
    if (!pitch) pitch = run = operand.strides[at];
    run *= operand.dims[at];
  }
  return pitch;
}

/// Neighbours that a thread takes at once: up to 16 bytes.
int vector_of(const Problem& problem, int64_t length) {
  auto vector = static_cast<int>(16 / std::max(size_of(problem.inputs[0].dtype), size_of(problem.outputs[0].dtype)));
  bool aligned = problem.inputs[0].aligned && problem.outputs[0].aligned;
  for (size_t at = 1; at < 3; ++at) aligned &= !has(problem, at) || problem.inputs[at].aligned;
  const int64_t x_pitch = *pitch_of(problem, problem.inputs[0]), y_pitch = *pitch_of(problem, problem.outputs[0]);
  while (vector > 1 && (!aligned || length % vector || x_pitch % vector || y_pitch % vector)) vector /= 2;
  return vector;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(y.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!pitch_of(problem, x) || !pitch_of(problem, y)) return {Reason::not_contiguous, "rows"};
  for (size_t at = 1; at < problem.outputs.size(); ++at)
    if (problem.outputs[at]) return {Reason::wanted, "statistics"};
  const int64_t length = length_of(problem);
  for (size_t at = 1; at < 3; ++at) {
    if (!has(problem, at)) continue;
    const Operand& list = problem.inputs[at];
    if (list.dtype != DType::f32 || !list.dense()) return {Reason::element_type, "scale and bias", "f32"};
    if (list.dims.elements() != length) return {Reason::shape, "scale and bias", "a row's size"};
  }
  return length > most_length ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const int64_t length = length_of(problem);
  const int vector = vector_of(problem, length);
  bool constant = true;
  for (size_t at = 1; at < 3; ++at) constant &= !has(problem, at) || problem.inputs[at].constant;
  // From as many threads as a row has vectors to a quarter of them.
  int lanes = 4;
  while (lanes < 256 && lanes * vector < length) lanes *= 2;
  std::vector<Tactic> list;
  for (int part = 1; part <= 4 && lanes / part >= 4; part *= 2) {
    const int64_t each = ceil_div(length, int64_t{lanes} / part * vector);
    if (part > 1 && each * vector > 64) break;
    const int threads = std::max(lanes / part, 128);
    Source source{"layer_norm.cu", {}, ""};
    source.defines = {define_type("ELEMENT", problem.inputs[0].dtype),
                      define_type("RESULT", problem.outputs[0].dtype),
                      define("LANES", lanes / part),
                      define("EACH", each),
                      define("VEC", vector),
                      define("THREADS", threads),
                      define("EARLY", constant && each * vector <= most_early),
                      define("CENTRED", ops::has_trait(problem.node->op, ops::Trait::centred))};
    list.push_back({"rows of " + std::to_string(lanes / part), {source}, {lanes / part, threads}});
  }
  return list;
}

class LayerNormStep : public Step {
 public:
  LayerNormStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        function_(device.function(tactic.sources[0], "layer_norm")),
        scale_(has(problem, 1)),
        bias_(has(problem, 2)) {
    const int64_t length = length_of(problem);
    params_.rows = length ? problem.inputs[0].dims.elements() / length : 0;
    params_.x_pitch = *pitch_of(problem, problem.inputs[0]), params_.y_pitch = *pitch_of(problem, problem.outputs[0]);
    params_.length = static_cast<int>(length);
    params_.epsilon = static_cast<float>(problem.node->real("epsilon", 1e-5f));
    grid_ = {ceil_div(params_.rows, tactic.numbers[1] / tactic.numbers[0]), 1, 1, tactic.numbers[1], 0};
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0];
    if (scale_) params.scale = at.inputs[1];
    if (bias_) params.bias = at.inputs[2];
    launch(device_, function_, grid_, at, params);
  }

 private:
  Device& device_;
  Function function_;
  bool scale_, bias_;
  Params params_{};
  Grid grid_;
};

const KernelRegistrar registered({"LayerNormalization", "RMSNormalization"},
                                 {"", "rows", 1, refuses, tactics, make_step<LayerNormStep>});

}  // namespace
}  // namespace tenon::cuda::layer_norm
