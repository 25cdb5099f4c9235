// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "quant/equalise.h"
#include "compile/observe.h"
#include "compile/recipe_candidates.h"

namespace tenon::compile {

/// What the stages of calibration share.
struct CalibrationContext {
  const ir::Graph& graph;
  const quant::Observations& seen;
  const Setting& setting;
  Shapes shapes;
  ThreadPool& thread_pool;
  quant::Reasons keep;         ///< what the user asked for, by node
  quant::Equalised equalised;  ///< empty: no group of channels has factors
  RecipeCandidates candidates(const quant::Recipe& recipe) const {
    return {graph, recipe, seen, shapes, thread_pool, setting.records};
  }
  double error(const quant::Recipe& recipe) const { return candidates(recipe).error(recipe.values); }
  /// Throws Error(usage) where the user cancels.
  void report(const char* stage, double done) const;
};

/// Quantisers by value.
using Values = std::map<std::string, quant::Quantiser>;

/// The weights of a structure's anchors: scales of least error under the power of each input channel, and biases that
/// undo the mean error of rounded weights. Values are those of `values` that the structure quantises.
quant::Recipe make_recipe(const CalibrationContext& context, const quant::Structure& structure, const Values& values);

/// The recipe with all weights paired that kernels would gain by; see store_row.
quant::Recipe in_pairs(const CalibrationContext& context, quant::Recipe recipe);

/// One quantiser a scale group that holds everything that was seen.
Values widest_ranges(const CalibrationContext& context, const quant::Structure& structure);

/// Of no factors, and those of much and of little caution, the ones with the least error at the outputs while
/// everything that was seen lies within its range.
quant::Equalised choose_factors(const CalibrationContext& context, const quant::Structure& structure);

/// One quantiser a scale group: what holds everything where channels have factors; else by the method; for
/// `automatic` group after group the candidate of all methods with the least error at the outputs while everything else
/// is stored too.
Values choose_ranges(const CalibrationContext& context, const quant::Structure& structure, CalibrationMethod method);
/// All trials of "choose ranges" as int8_pace.h counts them, with the factors that the context has.
double choosing_trials(const CalibrationContext& context, const quant::Structure& structure);

/// By scale group: the error at the outputs with the layers that read it alone in INT8, on a few probes; -1 where
/// no layer of the recipe does.
std::vector<double> errors_alone(const CalibrationContext& context, const quant::Structure& structure,
                                 const quant::Recipe& recipe);

/// A recipe with anchors left in floating point until the error is at most `target`: those that read the groups of most
/// error alone go first, and what turns out not to have been needed goes back.
quant::Recipe place(const CalibrationContext& context, const quant::Structure& structure, const Values& values,
                    const std::vector<double>& errors, double target);

}  // namespace tenon::compile
