// SPDX-License-Identifier: Apache-2.0
#include "compile/int8.h"

#include <fmt/format.h>
#include <tenon/judge.h>

#include <limits>
#include <set>
#include <utility>

#include "backends/backend.h"
#include "compile/rank.h"
#include "engine/engine.h"
#include "compile/calibrate.h"
#include "compile/int8_pace.h"
#include "compile/choose.h"
#include "compile/calibration_evidence.h"
#include "passes/deconvolution_rows.h"
#include "passes/round_recurrent.h"
#include "quant/export.h"
#include "quant/float8.h"
#include "quant/materialise.h"

namespace tenon::compile {
namespace {

void warn_of_floats(const BuildOptions& options, Precision precision, const std::string& why) {
  const char* eight = options.precision == Precision::fp8 ? "FP8" : "INT8";
  options.logger.log(Severity::warning, std::string(eight) + " does not pay on this machine: " + why +
                                            "; the engine is " + std::string(name(precision)));
}

/// What can be calibrated and timed: the graph, or what comes before sizes that data decide, as those behind NMS, where
/// that has layers for INT8.
ir::Graph fixed_part(const ir::Graph& graph, const Shapes& shapes) {
  const ir::Graph concrete = plan::concretise(graph, shapes);
  if (plan::is_static(concrete)) return graph;
  ir::Graph part = plan::planned_part(concrete);
  const bool has_anchor = std::any_of(part.nodes.begin(), part.nodes.end(), [&](const ir::Node& node) {
    return quant::role_of(part, node) == quant::Role::anchor;
  });
  return has_anchor ? part : graph;
}

using passes::RecurrentWeights;

class Int8Build {
 public:
  explicit Int8Build(const Int8Task& task)
      : task_(task),
        base_(task.base),
        options_(task.options),
        can_(backends::backend(base_.device).capabilities(base_.device)),
        exact_(base_),
        floats_(base_),
        graph_(with_deconvolutions(base_.graph, {})),
        part_(fixed_part(graph_, options_.shapes)) {
    may_measure_ = options_.objective != Objective::size && options_.budget_seconds != 0 &&
                   plan::is_static(plan::concretise(part_, options_.shapes));
    exact_.goal.precision = Precision::fp32;
    floats_.goal.precision = may_round() ? Precision::bf16 : can_.floats;
    floats_.goal.rounds_to_bf16 = may_round();
  }

  plan::Plan plan() {
    expect_parts();
    // First of all, so that data which does not fit the model is known before the long part.
    if (options_.judge) judge_floats();
    try_recurrent();
    recipe_ = calibrated();
    pace_.scaled();
    measures_ = may_measure_ && (!recipe_.anchors.empty() || !rounding_.empty());
    if (measures_ && !options_.judge && recurrent_ == RecurrentWeights::none) task_.finish(floats_);
    floats_.evidence = evidence_of({});
    return options_.judge ? judged() : faster();
  }

 private:
  void expect_parts() {
    const int64_t count = options_.calibration.count, all = options_.calibrator ? options_.calibrator->samples() : 0;
    constexpr double usual_samples = 100;
    pace_.expect({.judged = options_.judge != nullptr,
                  .chosen = options_.calibration.method == CalibrationMethod::automatic && !is_float8(),
                  .reconstructs = options_.calibration.reconstruct,
                  .groups = static_cast<double>(quant::structure_of(part_).groups),
                  .samples = all > 0 ? static_cast<double>(count > 0 ? std::min(all, count) : all) : usual_samples,
                  .compiles = !can_.host_memory});
  }

  /// A graph whose transposed convolutions are such that there are on bytes: all, or those that a recipe names.
  ir::Graph with_deconvolutions(ir::Graph graph, const std::function<bool(const std::string&)>& wanted) const {
    if (!can_.deconvolution_rows || is_float8() || !passes::split_deconvolutions(graph, wanted)) return graph;
    graph.tidy();
    ops::infer(graph);
    return graph;
  }
  plan::Plan base_for(const quant::Recipe& how) const {
    plan::Plan plan = base_;
    round_recurrent(plan.graph, recurrent_);
    plan.graph = with_deconvolutions(std::move(plan.graph),
                                     [&](const std::string& name) { return how.anchors.count(name) > 0; });
    return plan;
  }

  /// Judges an engine.
  Score judged_score(const plan::Plan& plan) {
    const Pace::Scope scope(task_.pace, Int8Pace::scoring, 1);
    pace_.scored();
    return options_.judge->score(engine_of(plan));
  }

  bool is_enough(const Score& score) const { return score.drop <= search_.limit && score.objection.empty(); }

  /// Whether layers may be in bf16: where any precision will do, a judge sees what that loses and the CPU has it.
  bool may_round() const {
    const auto& keep = options_.calibration.keep;
    return options_.precision == Precision::best && options_.judge && may_measure_ && can_.rounds_layers &&
           std::all_of(keep.begin(), keep.end(), [](const auto& wish) { return wish.second == quant::in_int8; });
  }

  /// Makes what others are judged against, and the plan of 16 bits.
  void judge_floats() {
    task_.finish(exact_);
    task_.pace.skip("tune");  // engines are tuned inside of other parts from here on
    std::optional<Pace::Scope> scope(std::in_place, task_.pace, Int8Pace::reference, 1);
    const double value = options_.judge->reference(engine_of(exact_));
    scope.reset();
    pace_.referenced(options_.judge->score_cost());
    const double limit = options_.max_drop.value_or(options_.judge->usual_drop());
    search_ = {options_.judge->metric(), options_.judge->samples(), limit, {{0, value}}, {}};
    if (!options_.max_drop) search_.reason = options_.judge->limit_reason();
    const Jitter jitter = options_.judge->jitter();
    search_.jitter = jitter.drop, search_.change = jitter.change;
    if (floats_.goal.precision == exact_.goal.precision) {
      floats_ = exact_;
      return;
    }
    task_.finish(floats_);
    const Score score = options_.judge->score(engine_of(floats_));
    search_.points.push_back({0,
                              score.value,
                              score.drop,
                              score.low,
                              score.high,
                              0,
                              {},
                              false,
                              std::string(name(floats_.goal.precision)),
                              score.objection});
    if (!may_measure_) return;
    const Gain gain = gain_of(base_.graph, exact_, floats_);
    search_.points[0].milliseconds = gain.one_us / 1e3, search_.points[1].milliseconds = gain.other_us / 1e3;
    if (floats_.goal.rounds_to_bf16) rounding_ = gain.by_anchor;
  }

  bool round_recurrent(ir::Graph& graph, RecurrentWeights which) const {
    const auto& keep = options_.calibration.keep;
    return passes::round_recurrent(graph, which, [&](const ir::Node& node) {
      return std::any_of(node.origins.begin(), node.origins.end(), [&](const std::string& name) {
        const auto wish = keep.find(name);
        return wish != keep.end() && wish->second != quant::in_int8;
      });
    });
  }

  /// Whether recurrent weights of 8 bits lose no more than half the limit and the part of it that they save of the
  /// time, told to the search if so. Times of floating point and of these are in microseconds, or 0.
  bool is_within(const plan::Plan& rounded, std::pair<double, double> times) {
    const double saved = times.first > 0 ? 1 - times.second / times.first : 0;
    const Score score = judged_score(rounded);
    if (score.drop > std::min(0.5 + saved, 1.0) * search_.limit || !score.objection.empty()) return false;
    search_.points[0].milliseconds = times.first / 1e3;
    search_.points.push_back(
        {times.second / 1e3, score.value, score.drop, score.low, score.high, 0, {}, false, "rnn i8", score.objection});
    return true;
  }

  /// Recurrent layers by weights of 8 bits, where that is faster and loses no more than it may: what INT8 has to be
  /// faster than from then on. Inputs may be of very different sizes, states are not.
  void try_recurrent() {
    if (!can_.host_memory || is_float8() || may_round() || options_.objective == Objective::size) return;
    for (const RecurrentWeights which : {RecurrentWeights::all, RecurrentWeights::states}) {
      plan::Plan rounded = base_;
      if (!round_recurrent(rounded.graph, which)) return;
      if (!task_.pace.report("recurrent layers", 0)) throw Error(Code::usage, "the build was cancelled");
      task_.finish(rounded);
      std::pair<double, double> times;
      if (may_measure_) {
        if (!options_.judge) task_.finish(exact_);
        times = benchmark(exact_, rounded);
        if (times.second >= times.first) continue;
      }
      if (options_.judge && !is_within(rounded, times)) continue;
      recurrent_ = which, floats_ = std::move(rounded);
      return;
    }
  }

  /// Chooses how to quantise the graph.
  quant::Recipe calibrated() {
    if (!options_.calibrator)
      throw Error(Code::usage, "INT8 needs calibration data",
                  {.hint = "tenon build takes --data; in C++ set BuildOptions::calibrator"});
    Setting setting{options_.calibration,  options_.shapes,   base_.threads,
                    task_.cache.records(), options_.progress, options_.logger};
    if (is_float8()) {
      // Floats have range to spare: nothing is cut off, and their errors are not those of integers.
      setting.by_channel = setting.options.reconstruct = false;
      setting.options.target_error = std::numeric_limits<double>::infinity();
      if (setting.options.method == CalibrationMethod::automatic) setting.options.method = CalibrationMethod::min_max;
    }
    setting.takes_outputs = can_.host_memory && !is_float8();
    setting.names = quant::same_tensors(graph_, task_.imported);
    if (options_.judge) {
      setting.prefer = [&](const std::vector<Scaling>& all) { return preferred(all); };
      setting.foresee = [&](const Scaling& one) {
        foreseen_.emplace(one.what, scaling_score(one));
        pace_.searches(is_enough(foreseen_->second));
      };
    }
    quant::Recipe recipe = calibrate(part_, *options_.calibrator, setting);
    return is_float8() ? quant::float8_part(graph_, recipe) : recipe;
  }

  Score scaling_score(const Scaling& one) {
    const Pace::Scope scope(task_.pace, std::exchange(has_engines_, true) ? Int8Pace::engine : Int8Pace::first_engine,
                            1);
    plan::Plan plan = base_for(one.recipe);
    quant::materialise(plan.graph, one.recipe);
    task_.finish(plan);
    return judged_score(plan);
  }

  /// The scales by which everything in INT8 loses least as the judge sees it.
  size_t preferred(const std::vector<Scaling>& all) {
    size_t best = 0;
    std::vector<Score> scores;
    pace_.compares(all.size());
    for (const Scaling& one : all) {
      scores.push_back(foreseen_ && foreseen_->first == one.what ? foreseen_->second : scaling_score(one));
      const Score &score = scores.back(), &least = scores[best];
      const bool is_fine = score.objection.empty(), was_fine = least.objection.empty();
      const bool is_nearer =
          score.distance != least.distance ? score.distance < least.distance : score.drop < least.drop;
      if (is_fine == was_fine ? is_nearer : is_fine) best = scores.size() - 1;
    }
    pace_.searches(is_enough(scores[best]));
    scaled_ = fmt::format("; scales are {}: all in INT8 they lose {:.2f}", all[best].what, scores[best].drop);
    for (size_t at = 0; at < all.size(); ++at)
      if (at != best) scaled_ += fmt::format(", those {} {:.2f}", all[at].what, scores[at].drop);
    return best;
  }

  bool is_float8() const { return base_.goal.precision == Precision::fp8; }

  /// Errors that calibration measured are those of integers.
  plan::Evidence evidence_of(const quant::Recipe& how) const {
    return is_float8() ? plan::Evidence() : evidence_as_placed(graph_, recipe_, how);
  }

  plan::Plan quantised(const quant::Recipe& how, const std::set<std::string>& rounded) const {
    plan::Plan result = base_for(how);
    if (how.anchors.empty() && !rounding_.empty())
      result.goal.precision = (rounded.empty() ? exact_ : floats_).goal.precision;
    for (ir::Node& node : result.graph.nodes)
      if (const std::string& name = quant::result_name(result.graph, node);
          rounded.count(name) && !how.anchors.count(name))
        plan::let_round(node);
    if (is_float8()) quant::materialise_float8(result.graph, how);
    else quant::materialise(result.graph, how);
    result.evidence = evidence_of(how);
    task_.finish(result);
    if (!task_.pace.report("time layers", 0)) throw Error(Code::usage, "the build was cancelled");
    return result;
  }

  /// `rounded`: anchors that compute in bf16 where they are not in INT8.
  LatencyCheck trial(const quant::Recipe& how, const std::set<std::string>& rounded) const {
    const auto make = [&](const quant::Recipe& some) { return quantised(some, rounded); };
    if (options_.objective == Objective::size) return by_size(graph_, how, make(how));
    if (!measures_) return {make(how), 0, 0, how, {}, {}};
    if (rounding_.empty()) return keep_faster(graph_, floats_, how, make);
    plan::Plan beside = quantised({}, rounded);
    LatencyCheck check;
    if (how.anchors.empty()) check.quantised = std::move(beside);
    else check = keep_faster(graph_, beside, how, make);
    std::tie(check.float_us, check.int8_us) = benchmark(exact_, check.quantised);
    for (const std::string& name : rounded)
      if (!check.recipe.anchors.count(name)) check.rounded.insert(name);
    return check;
  }

  plan::Plan judged() {
    const auto try_out = [&](const quant::Recipe& how, const std::set<std::string>& rounded) {
      const Pace::Scope scope(task_.pace, Int8Pace::round, 1);
      ++rounds_;
      return trial(how, rounded);
    };
    const auto score = [&](const plan::Plan& one) { return judged_score(one); };
    const auto expects = [&](double rounds) { pace_.searches(rounds_, rounds); };
    std::optional<LatencyCheck> best =
        choose({graph_, recipe_, search_.limit, options_.objective, try_out, score, rounding_, expects}, search_);
    pace_.searches(rounds_, 0);
    if (best && !best->recipe.anchors.empty()) search_.why += scaled_;
    exact_.evidence = floats_.evidence;
    plan::Plan result = std::move(best ? best->quantised : search_.points[0].chosen ? exact_ : floats_);
    const bool is_recurrent = !best && recurrent_ != RecurrentWeights::none && !search_.points[0].chosen;
    if (is_recurrent) search_.why = "recurrent layers alone gain by INT8";
    result.evidence.search = search_;
    if (is_recurrent) return result;
    if (!best) warn_of_floats(options_, result.goal.precision, search_.why);
    else if (best->recipe.anchors.empty())
      warn_of_floats(options_, result.goal.precision, "the fastest that loses so little is in bf16 and fp32");
    return result;
  }

  plan::Plan faster() {
    const Pace::Scope scope(task_.pace, Int8Pace::round, 1);
    LatencyCheck check = trial(recipe_, {});
    // Where steps overlap, what is nearly as fast is ranked first, as the engine will be.
    constexpr double nearly = 1.15;
    if (measures_ && can_.concurrent && check.int8_us * nearly > check.float_us &&
        check.int8_us < check.float_us * nearly) {
      for (plan::Plan* one : {&check.quantised, &floats_})
        compile::rank(*one, task_.cache, options_.budget_seconds, options_.progress);
      const auto [int8_ms, float_ms] = compile::time_both(check.quantised, floats_);
      check.int8_us = int8_ms * 1e3, check.float_us = float_ms * 1e3;
    }
    if (!measures_ || check.int8_us < check.float_us) return std::move(check.quantised);
    if (recurrent_ != RecurrentWeights::none) return std::move(floats_);
    warn_of_floats(options_, floats_.goal.precision,
                   fmt::format("{:.3g} ms against {:.3g} ms", check.int8_us / 1e3, check.float_us / 1e3));
    return std::move(floats_);
  }

  const Int8Task& task_;
  const plan::Plan& base_;
  const BuildOptions& options_;
  const backends::Capabilities can_;
  plan::Plan exact_, floats_;  // FP32, and of 16 bits where layers beside INT8 may be
  const ir::Graph graph_;      // that recipes are of: with all that may be in INT8 in a form that there is on bytes
  const ir::Graph part_;       // of it, that calibration sees
  bool may_measure_ = false, measures_ = false;
  RecurrentWeights recurrent_ = RecurrentWeights::none;  // those that are of 8 bits in floats_ and in all behind it
  std::map<std::string, double> rounding_;  // microseconds that anchors save in bf16; none: they may not be
  quant::Recipe recipe_;
  plan::Search search_;
  Int8Pace pace_{task_.pace};
  int rounds_ = 0;                                         // of the search
  bool has_engines_ = false;                               // that were judged for their scales
  std::optional<std::pair<std::string, Score>> foreseen_;  // the first of them
  std::string scaled_;  // how scales were chosen, behind `why`; "" where there was nothing to choose
};

}  // namespace

plan::Plan plan_int8(const Int8Task& task) { return Int8Build(task).plan(); }

}  // namespace tenon::compile
