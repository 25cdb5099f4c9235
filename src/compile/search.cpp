// SPDX-License-Identifier: Apache-2.0
#include "compile/search.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "compile/int8_pace.h"
#include "quant/calibrators.h"
#include "quant/weights.h"

namespace tenon::compile {
namespace {

constexpr size_t few_probes = 4;

/// Mean of x^2, or of x, by channel, in units of its factor.
std::vector<double> means(const CalibrationContext& context, const std::string& value, bool squares) {
  const auto found = context.seen.channels.find(value);
  if (found == context.seen.channels.end()) return {};
  std::vector<double> result = squares ? found->second.squares : found->second.sum;
  for (double& entry : result) entry /= static_cast<double>(found->second.positions);
  if (const auto own = context.equalised.factors.find(value); own != context.equalised.factors.end())
    for (size_t c = 0; c < result.size(); ++c) result[c] /= std::pow(double{own->second[c]}, squares ? 2 : 1);
  return result;
}

/// The bias that undoes the mean error which rounding the weights makes.
std::vector<float> corrected_bias(const ir::Graph& graph, const ir::Node& node, const quant::WeightView& view,
                                  const quant::WeightQuantiser& how, const std::vector<double>& mean) {
  const Tensor* bias = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
  std::vector<float> result(static_cast<size_t>(view.rows));
  for (int64_t row = 0; row < view.rows; ++row) {
    double sum = bias ? bias->data<float>()[bias->elements() == 1 ? 0 : row] : 0;
    const std::vector<int8_t> stored = quant::store_row(view, row, how.scales[row], how.paired);
    for (int64_t i = 0; i < view.inner; ++i)
      sum += (view.at(row, i) - static_cast<float>(stored[i]) * how.scales[row]) * mean[view.channel(row, i)];
    result[row] = static_cast<float>(sum);
  }
  return result;
}

/// Values of each scale group.
std::vector<std::vector<std::string>> members(const ir::Graph& graph, const quant::Structure& structure) {
  std::vector<std::vector<std::string>> names(static_cast<size_t>(structure.groups));
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0) names[structure.group[id]].push_back(graph.values[id].name);
  return names;
}

/// Of the draft that is foreseen.
double trials_before(const CalibrationContext& context) { return context.setting.foresee ? draft_trials : 0; }

double trials_of_drafts(const CalibrationContext& context) {
  return context.setting.prefer ? usual_drafts * draft_trials : 0;
}

bool nearly_same(const quant::Quantiser& a, const quant::Quantiser& b) {
  return std::fabs(a.scale / b.scale - 1) < 0.03f && std::abs(a.zero - b.zero) <= 1;
}

/// Distinct quantisers by all methods, the one of least squared error first; hopeless ones are left out.
std::vector<quant::Quantiser> candidates(const quant::Histogram& histogram, double percentile) {
  constexpr double hopeless = 30;  // times the least squared error
  std::vector<quant::Quantiser> list{quant::Quantiser::of(quant::mse_range(histogram))};
  const double least = quant::squared_error(histogram, list[0]);
  for (const CalibrationMethod method : {CalibrationMethod::min_max, CalibrationMethod::percentile,
                                         CalibrationMethod::entropy, CalibrationMethod::entropy_legacy}) {
    const quant::Quantiser next = quant::Quantiser::of(quant::range_of(histogram, method, percentile));
    if (quant::squared_error(histogram, next) > hopeless * least) continue;
    if (std::none_of(list.begin(), list.end(), [&](const quant::Quantiser& q) { return nearly_same(q, next); }))
      list.push_back(next);
  }
  return list;
}

}  // namespace

void CalibrationContext::report(const char* stage, double done) const {
  if (setting.progress && !setting.progress(stage, std::min(done, 1.0), -1))
    throw Error(Code::usage, "the build was cancelled");
}

quant::Recipe make_recipe(const CalibrationContext& context, const quant::Structure& structure, const Values& values) {
  const ir::Graph& graph = context.graph;
  quant::Recipe recipe;
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (structure.group[id] >= 0) {
      const std::string& name = graph.values[id].name;
      recipe.values[name] = values.at(name);
      if (const auto own = context.equalised.factors.find(name); own != context.equalised.factors.end())
        recipe.factors.insert(*own);
    }
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const ir::Node& node = graph.nodes[at];
    if (!structure.reasons[at].empty()) recipe.kept[quant::result_name(graph, node)] = structure.reasons[at];
    if (!structure.integer[at]) continue;
    const quant::WeightView view = quant::weights_of(graph, node, context.equalised.factors);
    const std::string& input = graph.value(node.inputs[0]).name;
    quant::WeightQuantiser& weights = recipe.anchors[quant::result_name(graph, node)];
    weights.scales = quant::weight_scales(view, means(context, input, true));
    if (const std::vector<double> mean = means(context, input, false); !mean.empty())
      weights.bias = corrected_bias(graph, node, view, weights, mean);
  }
  return recipe;
}

quant::Recipe in_pairs(const CalibrationContext& context, quant::Recipe recipe) {
  for (const ir::Node& node : context.graph.nodes) {
    if (node.outputs.empty()) continue;
    const auto anchor = recipe.anchors.find(quant::result_name(context.graph, node));
    if (anchor == recipe.anchors.end()) continue;
    const quant::WeightView view = quant::weights_of(context.graph, node, context.equalised.factors);
    if (!view.pairable) continue;
    quant::WeightQuantiser& weights = anchor->second;
    const std::string& input = context.graph.value(node.inputs[0]).name;
    weights.paired = true;
    weights.scales = quant::weight_scales(view, means(context, input, true), true);
    if (!weights.bias.empty())
      weights.bias = corrected_bias(context.graph, node, view, weights, means(context, input, false));
  }
  recipe.error = context.error(recipe);
  return recipe;
}

Values widest_ranges(const CalibrationContext& context, const quant::Structure& structure) {
  const auto names = members(context.graph, structure);
  Values values;
  for (size_t group = 0; group < names.size(); ++group) {
    const quant::Histogram& histogram = context.seen.groups[group];
    const auto equal = context.equalised.quantisers.find(static_cast<int>(group));
    const bool plain = equal == context.equalised.quantisers.end();
    for (const std::string& name : names[group])
      values[name] = plain ? quant::Quantiser::of({histogram.low(), histogram.high()}) : equal->second;
  }
  return values;
}

double choosing_trials(const CalibrationContext& context, const quant::Structure& structure) {
  constexpr double usual_choices = 2;  // beside the first, of a group without factors
  const auto equal = static_cast<double>(context.equalised.quantisers.size());
  const double choices = equal == 0 ? trials_of_group * structure.groups : usual_choices * (structure.groups - equal);
  return factor_trials + range_trial * choices + trials_of_drafts(context);
}

quant::Equalised choose_factors(const CalibrationContext& context, const quant::Structure& structure) {
  quant::Equalised best;
  double least = INFINITY, done = trials_before(context);
  constexpr std::array cautions{0., 4., 1.};
  for (const double caution : cautions) {
    context.report("choose ranges", done / choosing_trials(context, structure));
    done += factor_trials / cautions.size();
    CalibrationContext trial = context;
    if (caution > 0) trial.equalised = quant::equalise(context.graph, structure, context.seen, caution);
    const double error = trial.error(make_recipe(trial, structure, widest_ranges(trial, structure)));
    if (error < least) least = error, best = std::move(trial.equalised);
  }
  return best;
}

Values choose_ranges(const CalibrationContext& context, const quant::Structure& structure, CalibrationMethod method) {
  const double percentile = context.setting.options.percentile;
  const bool automatic = method == CalibrationMethod::automatic;
  const auto names = members(context.graph, structure);
  Values values;
  std::vector<std::vector<quant::Quantiser>> choices;
  for (size_t group = 0; group < names.size(); ++group) {
    const quant::Histogram& histogram = context.seen.groups[group];
    const auto equal = context.equalised.quantisers.find(static_cast<int>(group));
    if (equal != context.equalised.quantisers.end()) choices.push_back({equal->second});
    else if (automatic) choices.push_back(candidates(histogram, percentile));
    else choices.push_back({quant::Quantiser::of(quant::range_of(histogram, method, percentile))});
    for (const std::string& name : names[group]) values[name] = choices.back()[0];
  }
  if (!automatic) return values;
  RecipeCandidates candidates = context.candidates(make_recipe(context, structure, values));
  double least = candidates.error(values, few_probes), done = trials_before(context) + factor_trials, of_ranges = 0;
  for (const auto& choice : choices) of_ranges += range_trial * static_cast<double>(choice.size() - 1);
  const double all = factor_trials + of_ranges + trials_of_drafts(context);
  for (size_t group = 0; group < names.size(); ++group) {
    context.report("choose ranges", done / all);
    for (size_t choice = 1; choice < choices[group].size(); ++choice, done += range_trial) {
      Values trial = values;
      for (const std::string& name : names[group]) trial[name] = choices[group][choice];
      const double error = candidates.error(trial, few_probes);
      if (error < least) least = error, values = std::move(trial);
    }
  }
  return values;
}

namespace {

struct Placer {
  const CalibrationContext& context;
  const quant::Structure& whole;
  const Values& values;
  double target;

  /// The structure with all anchors that read one of these groups in floating point.
  quant::Structure without(const std::set<int>& groups) const {
    quant::Reasons keep = context.keep;
    for (size_t at = 0; at < context.graph.nodes.size(); ++at)
      if (whole.integer[at] && (keep[at].empty() || keep[at] == quant::while_it_holds) &&
          groups.count(whole.group[context.graph.nodes[at].inputs[0]]))
        keep[at] = "in INT8 it adds too much to the error";
    return quant::structure_of(context.graph, keep);
  }

  quant::Recipe recipe_without(const std::set<int>& groups) const {
    quant::Recipe recipe = make_recipe(context, without(groups), values);
    recipe.error = context.error(recipe);
    return recipe;
  }
};

/// Groups that anchors read, the one that does most sensitivity alone first.
std::vector<int> by_sensitivity(const std::vector<double>& errors) {
  std::vector<int> order;
  for (size_t group = 0; group < errors.size(); ++group)
    if (errors[group] >= 0) order.push_back(static_cast<int>(group));
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return errors[static_cast<size_t>(a)] > errors[static_cast<size_t>(b)]; });
  return order;
}

}  // namespace

std::vector<double> errors_alone(const CalibrationContext& context, const quant::Structure& structure,
                                 const quant::Recipe& recipe) {
  const ir::Graph& graph = context.graph;
  std::vector<quant::Recipe> alone(static_cast<size_t>(structure.groups));
  for (const ir::Node& node : graph.nodes) {
    if (node.outputs.empty()) continue;
    if (const auto anchor = recipe.anchors.find(quant::result_name(graph, node)); anchor != recipe.anchors.end())
      alone[static_cast<size_t>(structure.group[node.inputs[0]])].anchors.insert(*anchor);
  }
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const std::string& name = graph.values[id].name;
    if (structure.group[id] < 0) continue;
    quant::Recipe& own = alone[static_cast<size_t>(structure.group[id])];
    if (const auto value = recipe.values.find(name); value != recipe.values.end()) own.values.insert(*value);
    if (const auto factors = recipe.factors.find(name); factors != recipe.factors.end()) own.factors.insert(*factors);
  }
  std::vector<double> errors(alone.size(), -1);
  for (size_t group = 0; group < alone.size(); ++group) {
    context.report("measure layers", static_cast<double>(group) / (static_cast<double>(alone.size()) + placing_groups));
    if (!alone[group].anchors.empty())
      errors[group] = context.candidates(alone[group]).error(alone[group].values, few_probes);
  }
  return errors;
}

quant::Recipe place(const CalibrationContext& context, const quant::Structure& structure, const Values& values,
                    const std::vector<double>& errors, double target) {
  const Placer placer{context, structure, values, target};
  quant::Recipe best = placer.recipe_without({});
  if (best.error <= target) return best;
  const std::vector<int> order = by_sensitivity(errors);
  std::set<int> out;
  size_t taken = 0;
  // At most half of the groups: a network that needs more is no network for INT8.
  while (best.error > target && taken < order.size() / 2) {
    context.report("place layers", static_cast<double>(taken) / static_cast<double>(order.size()));
    for (size_t more = 1 + taken / 4; more > 0 && taken < order.size() / 2; --more) out.insert(order[taken++]);
    best = placer.recipe_without(out);
  }
  if (best.error > target) return best;
  // The ones taken last are the likeliest to have been for nothing.
  constexpr size_t most_back = 6;
  for (size_t at = taken; at-- > 0 && taken - at <= most_back;) {
    std::set<int> fewer = out;
    fewer.erase(order[at]);
    quant::Recipe trial = placer.recipe_without(fewer);
    if (trial.error <= target) best = std::move(trial), out = std::move(fewer);
  }
  return best;
}

}  // namespace tenon::compile
