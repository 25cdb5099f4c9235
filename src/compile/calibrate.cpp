// SPDX-License-Identifier: Apache-2.0
#include "compile/calibrate.h"

#include <fmt/format.h>
#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/counted.h"
#include "base/memory.h"
#include "quant/cache.h"
#include "quant/checkpoint.h"
#include "compile/calibration_evidence.h"
#include "compile/int8_pace.h"
#include "compile/memory_budget.h"
#include "compile/reconstruct.h"
#include "compile/search.h"
#include "passes/round_recurrent.h"
#include "quant/trt_cache.h"

namespace tenon::compile {
namespace {

void warn(const Setting& setting, const std::string& text) { setting.logger.log(Severity::warning, text); }

quant::Recipe from_table(const std::string& text, const ir::Graph& graph, const Setting& setting) {
  const quant::TensorRtTable table = quant::parse_tensorrt_table(text);
  quant::ForeignRecipe foreign = quant::recipe_of(table, graph, setting.names);
  if (foreign.covered == 0)
    throw Error(Code::usage, "the TensorRT calibration table names no tensor of this model",
                {.why = "it has " + counted(table.scales.size(), "tensor"),
                 .hint = "tables made after fusion have other names; calibrate with --data"});
  warn(setting, fmt::format("{}: covers {} of {} layers; the others stay in floating point", table.header,
                            foreign.covered, foreign.wanted));
  return std::move(foreign.recipe);
}

/// What --keep asks for, by node. Throws Error(usage) for a node that INT8 is not considered for.
quant::Reasons kept_nodes(const ir::Graph& graph, const CalibrationOptions& options) {
  quant::Reasons keep(graph.nodes.size());
  for (const auto& [name, precision] : options.keep) {
    bool found = false;
    for (size_t at = 0; at < graph.nodes.size(); ++at) {
      const ir::Node& node = graph.nodes[at];
      const bool is_anchor = quant::role_of(graph, node) == quant::Role::anchor;
      if (!is_anchor && (precision == quant::in_int8 || !passes::has_recurrent_weights(graph, node))) continue;
      if (std::find(node.origins.begin(), node.origins.end(), name) == node.origins.end()) continue;
      found = true;
      if (!is_anchor) continue;  // weights of recurrent layers are rounded, or are not, whatever is calibrated
      keep[at] = precision == quant::in_int8 ? quant::in_int8 : "--keep asks for it";
    }
    if (!found)
      throw Error(Code::usage, "no layer that could be in INT8 is called \"" + name + "\"",
                  {.where = "--keep",
                   .hint = "tenon why lists the model's nodes; convolutions and matrix multiplications count",
                   .node = name});
  }
  return keep;
}

/// What stays in floating point, or does not: what the user asks for, and the convolution that makes the result where
/// that may be in INT8 and there is one. Several are the heads of a detector, whose boxes need more than bytes.
quant::Reasons reasons_of(const ir::Graph& graph, const Setting& setting) {
  quant::Reasons keep = kept_nodes(graph, setting.options);
  if (!setting.takes_outputs) return keep;
  const quant::Structure structure = quant::structure_of(graph, keep);
  const auto is_bare = [](const std::string& reason) { return reason == quant::bare_output; };
  const auto first = std::find_if(structure.reasons.begin(), structure.reasons.end(), is_bare);
  if (std::count_if(structure.reasons.begin(), structure.reasons.end(), is_bare) == 1)
    keep[static_cast<size_t>(first - structure.reasons.begin())] = quant::while_it_holds;
  return keep;
}

/// The recipe, with the anchors named that --keep holds in INT8.
quant::Recipe pinned(const ir::Graph& graph, const CalibrationOptions& options, quant::Recipe recipe) {
  const quant::Reasons keep = kept_nodes(graph, options);
  for (size_t at = 0; at < graph.nodes.size(); ++at)
    if (keep[at] == quant::in_int8) recipe.pinned.insert(quant::result_name(graph, graph.nodes[at]));
  return recipe;
}

/// Biases are corrected where that helps, and weights paired where it costs little: pairs are faster on many CPUs.
quant::Recipe polished(const CalibrationContext& context, quant::Recipe recipe) {
  quant::Recipe plain = recipe;
  for (auto& [name, weights] : plain.anchors) weights.bias.clear();
  plain.error = context.error(plain);
  if (plain.error < recipe.error) recipe = std::move(plain);
  quant::Recipe pairs = in_pairs(context, recipe);
  const double target = context.setting.options.target_error;
  if (pairs.error <= std::max(std::isinf(target) ? CalibrationOptions().target_error : target, recipe.error))
    recipe = std::move(pairs);
  return recipe;
}

struct Draft {
  const char* what;
  quant::Equalised equalised;
  Values values;
};

Scaling scaling_of(CalibrationContext context, const quant::Structure& structure, const Draft& draft) {
  context.equalised = draft.equalised;
  quant::Recipe recipe = make_recipe(context, structure, draft.values);
  recipe.error = context.error(recipe);
  return {draft.what, polished(context, std::move(recipe))};
}

/// Scales to go on with: those of least error on the probes, or where somebody can tell, the best of these, of all
/// values seen by the same channels, and without channels of all values seen, of least squared error and of least
/// divergence of each tensor. `context` gets the factors.
Values scales(CalibrationContext& context, const quant::Structure& structure) {
  const Setting& setting = context.setting;
  const bool automatic = setting.options.method == CalibrationMethod::automatic;
  const CalibrationContext plain = context;
  const Draft widest{"of all values seen, one for each tensor", {}, widest_ranges(plain, structure)};
  std::optional<Scaling> foreseen;
  if (automatic && setting.prefer && setting.foresee) {
    context.report("choose ranges", 0);
    foreseen = scaling_of(context, structure, widest);
    setting.foresee(*foreseen);
  }
  if (setting.by_channel && automatic) context.equalised = choose_factors(context, structure);
  const double all = choosing_trials(context, structure);
  const Values chosen = choose_ranges(context, structure, setting.options.method);
  if (!automatic || !setting.prefer) return chosen;
  std::vector<Draft> drafts{{"of least error on a few samples", context.equalised, chosen}};
  if (!context.equalised.factors.empty())
    drafts.push_back({"of all values seen", context.equalised, widest_ranges(context, structure)});
  drafts.push_back(widest);
  drafts.push_back({"by mse", {}, choose_ranges(plain, structure, CalibrationMethod::mse)});
  drafts.push_back({"by entropy", {}, choose_ranges(plain, structure, CalibrationMethod::entropy)});
  constexpr double hopeless = 4;  // times the least error
  double least = INFINITY;
  std::vector<Scaling> scalings;
  std::vector<size_t> from;
  for (size_t at = 0; at < drafts.size(); ++at) {
    const auto is_same = [&](const Draft& earlier) { return earlier.values == drafts[at].values; };
    if (std::any_of(drafts.begin(), drafts.begin() + static_cast<int64_t>(at), is_same)) continue;
    context.report("choose ranges", 1 - draft_trials * static_cast<double>(drafts.size() - at) / all);
    const bool is_foreseen = foreseen && drafts[at].what == widest.what;
    Scaling one = is_foreseen ? std::move(*foreseen) : scaling_of(context, structure, drafts[at]);
    least = std::min(least, one.recipe.error);
    if (one.recipe.error > hopeless * least) continue;
    scalings.push_back(std::move(one));
    from.push_back(at);
  }
  Draft& best = drafts[scalings.size() > 1 ? from[setting.prefer(scalings)] : 0];
  context.equalised = std::move(best.equalised);
  return std::move(best.values);
}

quant::Recipe measure(const ir::Graph& graph, Calibrator& data, const Setting& asked, const quant::CacheKey& key,
                      const std::string& cache) {
  const Setting setting = fit_batch(graph, asked);
  const quant::Reasons keep = reasons_of(graph, setting);
  const quant::Structure structure = quant::structure_of(graph, keep);
  ThreadPool thread_pool(setting.threads, Denormals::flushed, Helpers::all);
  const quant::Checkpoint from =
      quant::read_checkpoint(cache, key, setting.options.batch, static_cast<size_t>(structure.groups));
  if (from.samples > 0)
    warn(setting, fmt::format("going on after {} that an earlier run has seen", counted(from.samples, "sample")));
  const quant::Observations seen =
      observe(graph, structure, data, setting, thread_pool, from, [&](const quant::Checkpoint& so_far) {
        data.write_cache(quant::write_checkpoint(key, setting.options.batch, so_far));
      });
  CalibrationContext context{graph, seen, setting, batch_shapes(graph, setting), thread_pool, keep, {}};
  const Values values = scales(context, structure);
  const std::vector<double> errors = errors_alone(context, structure, make_recipe(context, structure, values));
  quant::Recipe recipe = polished(context, place(context, structure, values, errors, setting.options.target_error));
  if (setting.options.reconstruct)
    if (quant::Recipe better = reconstruct(context, recipe); better.error < recipe.error) recipe = std::move(better);
  recipe.evidence = evidence_of(context, structure, errors, recipe);
  for (const plan::Suspicion& suspicion : recipe.evidence.suspicions)
    warn(setting, suspicion.what + ": " + suspicion.why);
  return recipe;
}

}  // namespace

quant::Recipe calibrate(const ir::Graph& graph, Calibrator& data, const Setting& setting) {
  const std::string text = data.read_cache();
  if (quant::is_tensorrt_table(text)) return from_table(text, graph, setting);
  quant::CacheKey key = quant::key_of(graph, data.preprocessing(), setting.options);
  if (!setting.by_channel) key.options += " one scale a tensor";
  if (!text.empty() && !quant::is_checkpoint(text)) {
    quant::CachedRecipe cached = quant::read_cache(text, key, graph);
    if (cached.stale.empty()) return pinned(graph, setting.options, std::move(cached.recipe));
    warn(setting, "the calibration cache was made with other " + cached.stale + "; calibrating again");
  }
  quant::Recipe recipe;
  try {
    recipe = measure(graph, data, setting, key, text);
  } catch (const Error& error) {
    if (error.code() != Code::resource || !error.hint().empty()) throw;
    throw Error(
        Code::resource, error.what(),
        {.where = error.where(),
         .why = error.why(),
         .hint = "raise --max-memory: calibration takes about " + memory_text(bytes_of_calibration(graph, setting))});
  }
  data.write_cache(quant::write_cache(key, recipe));
  return pinned(graph, setting.options, std::move(recipe));
}

}  // namespace tenon::compile
