// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "plan/plan.h"
#include "quant/recipe.h"

namespace tenon::compile {

/// Whether a quantised engine is worth having, by measurement.
struct LatencyCheck {
  plan::Plan quantised;  ///< tuned, with the parts in floating point that are faster so
  double float_us = 0;   ///< a run of the floating point plan
  double int8_us = 0;    ///< a run of `quantised`, timed in turn with the other
  quant::Recipe recipe;         ///< of `quantised`
  std::map<std::string, double> saved;  ///< microseconds that each of its anchors saves, or bytes (by_size)
  std::set<std::string> rounded;        ///< anchors in bf16
};

/// Runs the tuned floating point plan and the quantised one in turn, layer by layer, and leaves those parts of the
/// network in floating point that take longer in INT8 with their conversions, as long as that makes the whole
/// faster; on a GPU, where a conversion costs as much as a small layer, also the worst of them alone. `quantise` makes
/// the tuned plan of a recipe. Sizes must be known.
LatencyCheck keep_faster(const ir::Graph& graph, const plan::Plan& floats, const quant::Recipe& recipe,
                 const std::function<plan::Plan(const quant::Recipe&)>& quantise);

/// Puts layers of a model that came quantised into floating point: the integer convolutions and products made of the
/// ONNX nodes named, between the same bytes. `graph` is lowered. Throws Error(usage) for a name that is none of them.
void kept_to_f32(ir::Graph& graph, const std::map<std::string, std::string>& keep);

/// The tuned plan of such a model with those of them in floating point that take longer in INT8, conversions
/// included, if that makes the whole faster; where the device's integers are fast, only of those on 16 bits. `tune`
/// tunes a plan. Sizes must be known.
plan::Plan slower_to_f32(plan::Plan integers, const std::function<void(plan::Plan&)>& tune);

/// Microseconds of a run of two plans of one graph without INT8, timed in turn, and what each anchor saves in
/// the other one.
struct Gain {
  double one_us = 0, other_us = 0;
  std::map<std::string, double> by_anchor;
};
Gain gain_of(const ir::Graph& graph, const plan::Plan& one, const plan::Plan& other);

/// Microseconds that a run of each tuned plan takes, timed in turn. Sizes must be known.
std::pair<double, double> benchmark(const plan::Plan& one, const plan::Plan& other);

}  // namespace tenon::compile
