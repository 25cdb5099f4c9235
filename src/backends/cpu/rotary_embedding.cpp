// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding.h"

#include <algorithm>

#include "backends/cpu/dense.h"

namespace tenon::cpu::rotary_embedding {
namespace {

using backends::Problem;
using backends::Reason;

bool has_positions(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

/// Rows in turn. A position that no cosines are for takes the nearest.
class RotaryStep : public backends::Step {
 public:
  explicit RotaryStep(const Problem& problem)
      : rotary_(ops::rotary_of(*problem.node, problem.inputs[0].dims)),
        positions_(has_positions(problem)),
        cached_(problem.inputs[1].dims.elements() / std::max<int64_t>(rotary_.half, 1)) {}

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto* cosines = reinterpret_cast<const float*>(inputs[1]);
    const auto* sines = reinterpret_cast<const float*>(inputs[2]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(rotary_.rows(), begin, end);
    for (int64_t row = begin; row < end; ++row) {
      int64_t place = row / rotary_.heads;
      if (positions_) place = std::clamp<int64_t>(reinterpret_cast<const int64_t*>(inputs[3])[place], 0, cached_ - 1);
      const int64_t at = rotary_.begin(row), entry = place * rotary_.half;
      if (rotary_.interleaved) turn<2>(x + at, cosines + entry, sines + entry, y + at, 1);
      else turn<1>(x + at, cosines + entry, sines + entry, y + at, rotary_.half);
      std::copy(x + at + 2 * rotary_.half, x + at + rotary_.size, y + at + 2 * rotary_.half);
    }
  }

 private:
  /// Pairs begin `kStep` apart; the second of each lies `gap` behind the first.
  template <int kStep>
  void turn(const float* x, const float* cosines, const float* sines, float* y, int64_t gap) const {
    for (int64_t at = 0; at < rotary_.half; ++at) {
      const float a = x[kStep * at], b = x[kStep * at + gap];
      y[kStep * at] = cosines[at] * a - sines[at] * b;
      y[kStep * at + gap] = sines[at] * a + cosines[at] * b;
    }
  }

  ops::Rotary rotary_;
  bool positions_;
  int64_t cached_;
};

Reason refuses(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  for (size_t at = 0; at < 3; ++at)
    if (problem.inputs[at].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (has_positions(problem) && problem.inputs[3].dtype != DType::i64) return {Reason::element_type, "indices", "i64"};
  if (dims.elements() == 0) return Reason::empty;
  const ops::Rotary rotary = ops::rotary_of(*problem.node, dims);
  const int64_t least = rotary.half * (has_positions(problem) ? 1 : rotary.batch * rotary.sequence);
  const bool fits = rotary.half > 0 && problem.inputs[1].dims.elements() % rotary.half == 0 &&
                    problem.inputs[1].dims.elements() >= least && problem.inputs[2].dims == problem.inputs[1].dims;
  return fits ? Reason() : Reason(Reason::shape, "sines and cosines", "one entry for each pair");
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<RotaryStep>(problem); }

const backends::KernelRegistrar registered({"RotaryEmbedding", "rows", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::rotary_embedding
