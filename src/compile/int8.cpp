// SPDX-License-Identifier: Apache-2.0
#include "compile/int8.h"

#include <fmt/format.h>
#include <tenon/judge.h>

#include <limits>
#include <set>

#include "backends/backend.h"
#include "compile/rank.h"
#include "engine/engine.h"
#include "compile/calibrate.h"
#include "compile/choose.h"
#include "compile/calibration_evidence.h"
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

class Int8Build {
 public:
  explicit Int8Build(const Int8Task& task)
      : task_(task),
        base_(task.base),
        options_(task.options),
        can_(backends::backend(base_.device).capabilities(base_.device)),
        exact_(base_),
        floats_(base_) {
    may_measure_ = options_.objective != Objective::size && options_.budget_seconds != 0 &&
                   plan::is_static(plan::concretise(base_.graph, options_.shapes));
    exact_.goal.precision = Precision::fp32;
    floats_.goal.precision = may_round() ? Precision::bf16 : can_.floats;
    floats_.goal.rounds_to_bf16 = may_round();
  }

  plan::Plan plan() {
    expect_parts();
    // First of all, so that data which does not fit the model is known before the long part.
    if (options_.judge) judge_floats();
    recipe_ = calibrated();
    for (const char* part : {"calibrate", "choose ranges", "measure layers", "place layers", "reconstruct weights"})
      task_.pace.skip(part);
    task_.pace.skip(first_engine), task_.pace.skip(engine);
    measures_ = may_measure_ && (!recipe_.anchors.empty() || !rounding_.empty());
    if (measures_ && !options_.judge) task_.finish(floats_);
    floats_.evidence = evidence_of({});
    return options_.judge ? judged() : faster();
  }

 private:
  static constexpr const char *reference = "reference", *first_engine = "first engine", *engine = "engine",
                              *round = "round", *scoring = "scoring";
  static constexpr double score_of_reference = 0.3, engine_of_score = 0.6, round_of_score = 2;

  /// What is to be done, and how its pace is guessed until it has one: figures are those of SqueezeNet and YOLOv8n on a
  /// CPU.
  void expect_parts() {
    constexpr double usual_samples = 100, usual_engines = 4, trials_of_group = 14, samples_of_trial = 0.13,
                     samples_of_layer = 1.2;
    Pace& pace = task_.pace;
    const bool judged = options_.judge != nullptr;
    const bool chosen = options_.calibration.method == CalibrationMethod::automatic && !is_float8();
    const int64_t count = options_.calibration.count, all = options_.calibrator ? options_.calibrator->samples() : 0;
    const double groups = quant::structure_of(base_.graph).groups;
    const double samples = all > 0 ? static_cast<double>(count > 0 ? std::min(all, count) : all) : usual_samples;
    if (judged) pace.expect(reference, 1);
    pace.expect("calibrate", samples, 1.5 / samples, reference);
    pace.expect("choose ranges", chosen ? groups : 0, trials_of_group * samples_of_trial, "calibrate");
    pace.expect("measure layers", groups, samples_of_layer, "calibrate");
    if (options_.calibration.reconstruct) pace.expect("reconstruct weights", 1, 2 * groups, "measure layers");
    if (judged && chosen) {
      pace.expect(first_engine, 1, 1, "tune");
      pace.expect(engine, usual_engines - 1, engine_of_score, scoring);
    }
    if (judged) pace.expect(scoring, 1 + (chosen ? usual_engines : 0), score_of_reference, reference);
    pace.expect(round, 1, judged ? round_of_score : 3, judged ? scoring : "tune");
  }

  /// Judges an engine.
  Score judged_score(const plan::Plan& plan) {
    const Pace::Scope scope(task_.pace, scoring, 1);
    ++scored_;
    return options_.judge->score(engine_of(plan));
  }

  /// Rounds of the search that are left by what is known of the last engine that was judged.
  void expect_rounds(const Score& score, int done) {
    constexpr int usual = 4;  // of seven, where the first is not enough
    const bool enough = score.drop <= search_.limit && score.objection.empty();
    const int rounds = std::max(enough ? 1 : usual, done);
    task_.pace.expect(round, rounds, round_of_score, scoring);
    task_.pace.expect(scoring, scored_ + rounds - done, score_of_reference, reference);
  }

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
    const Pace::Scope scope(task_.pace, reference, 1);
    const double value = options_.judge->reference(engine_of(exact_));
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
    setting.names = quant::same_tensors(base_.graph, task_.imported);
    if (options_.judge) setting.prefer = [&](const std::vector<Scaling>& all) { return preferred(all); };
    quant::Recipe recipe = calibrate(base_.graph, *options_.calibrator, setting);
    return is_float8() ? quant::float8_part(base_.graph, recipe) : recipe;
  }

  /// The scales by which everything in INT8 loses least as the judge sees it.
  size_t preferred(const std::vector<Scaling>& all) {
    size_t best = 0;
    std::vector<Score> scores;
    const auto engines = static_cast<double>(all.size());
    task_.pace.expect(engine, engines - 1, engine_of_score, scoring);
    task_.pace.expect(scoring, engines + 1, score_of_reference, reference);
    for (const Scaling& one : all) {
      const Pace::Scope scope(task_.pace, scores.empty() ? first_engine : engine, 1);
      plan::Plan plan = base_;
      quant::materialise(plan.graph, one.recipe);
      task_.finish(plan);
      scores.push_back(judged_score(plan));
      const Score &score = scores.back(), &least = scores[best];
      const bool is_fine = score.objection.empty(), was_fine = least.objection.empty();
      const bool is_nearer =
          score.distance != least.distance ? score.distance < least.distance : score.drop < least.drop;
      if (is_fine == was_fine ? is_nearer : is_fine) best = scores.size() - 1;
    }
    expect_rounds(scores[best], 0);
    scaled_ = fmt::format("; scales are {}: all in INT8 they lose {:.2f}", all[best].what, scores[best].drop);
    for (size_t at = 0; at < all.size(); ++at)
      if (at != best) scaled_ += fmt::format(", those {} {:.2f}", all[at].what, scores[at].drop);
    return best;
  }

  bool is_float8() const { return base_.goal.precision == Precision::fp8; }

  /// Errors that calibration measured are those of integers.
  plan::Evidence evidence_of(const quant::Recipe& how) const {
    return is_float8() ? plan::Evidence() : evidence_as_placed(base_.graph, recipe_, how);
  }

  plan::Plan quantised(const quant::Recipe& how, const std::set<std::string>& rounded) const {
    plan::Plan result = base_;
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
    if (options_.objective == Objective::size) return by_size(base_.graph, how, make(how));
    if (!measures_) return {make(how), 0, 0, how, {}, {}};
    if (rounding_.empty()) return keep_faster(base_.graph, floats_, how, make);
    plan::Plan beside = quantised({}, rounded);
    LatencyCheck check;
    if (how.anchors.empty()) check.quantised = std::move(beside);
    else check = keep_faster(base_.graph, beside, how, make);
    std::tie(check.float_us, check.int8_us) = benchmark(exact_, check.quantised);
    for (const std::string& name : rounded)
      if (!check.recipe.anchors.count(name)) check.rounded.insert(name);
    return check;
  }

  plan::Plan judged() {
    const auto try_out = [&](const quant::Recipe& how, const std::set<std::string>& rounded) {
      const Pace::Scope scope(task_.pace, round, 1);
      return trial(how, rounded);
    };
    const auto score = [&](const plan::Plan& one) {
      const Score found = judged_score(one);
      if (rounds_++ == 0) expect_rounds(found, 1);
      return found;
    };
    std::optional<LatencyCheck> best =
        choose({base_.graph, recipe_, search_.limit, options_.objective, try_out, score, rounding_}, search_);
    if (best && !best->recipe.anchors.empty()) search_.why += scaled_;
    exact_.evidence = floats_.evidence;
    plan::Plan result = std::move(best ? best->quantised : search_.points[0].chosen ? exact_ : floats_);
    result.evidence.search = search_;
    if (!best) warn_of_floats(options_, result.goal.precision, search_.why);
    else if (best->recipe.anchors.empty())
      warn_of_floats(options_, result.goal.precision, "the fastest that loses so little is in bf16 and fp32");
    return result;
  }

  plan::Plan faster() {
    const Pace::Scope scope(task_.pace, round, 1);
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
    warn_of_floats(options_, floats_.goal.precision,
                   fmt::format("{:.3g} ms against {:.3g} ms", check.int8_us / 1e3, check.float_us / 1e3));
    return std::move(floats_);
  }

  const Int8Task& task_;
  const plan::Plan& base_;
  const BuildOptions& options_;
  const backends::Capabilities can_;
  plan::Plan exact_, floats_;  // FP32, and of 16 bits where layers beside INT8 may be
  bool may_measure_ = false, measures_ = false;
  std::map<std::string, double> rounding_;  // microseconds that anchors save in bf16; none: they may not be
  quant::Recipe recipe_;
  plan::Search search_;
  int scored_ = 0, rounds_ = 0;  // engines that were judged, and of them those of the search
  std::string scaled_;  // how scales were chosen, behind `why`; "" where there was nothing to choose
};

}  // namespace

plan::Plan plan_int8(const Int8Task& task) { return Int8Build(task).plan(); }

}  // namespace tenon::compile
