// SPDX-License-Identifier: Apache-2.0
#include "compile/int8_pace.h"

#include <algorithm>
#include <cmath>

namespace tenon::compile {
namespace {

constexpr double usual_engines = 4, engine_of_first = 0.25, round_of_first = 0.7, round_of_tune = 3;
constexpr double round_of_sample = 180;  // as long as judging so many, as layers are timed so often, in several turns
constexpr double perhaps_rounds = 1.5;   // while it is not known whether the first is enough
constexpr double passes_of_reference = 4, seconds_of_pass = 0.015;  // a sample, with its image
constexpr double samples_of_trial = 3.3, samples_of_layer = 1.1;    // as long as calibrating so many
constexpr double calibrating_of_reference = 2.5;                    // all samples

}  // namespace

void Int8Pace::expect(const Task& task) {
  judged_ = task.judged, compares_ = task.judged && task.chosen, samples_ = task.samples;
  compiles_ = task.compiles, groups_ = task.groups;
  if (judged_) {
    pace_.expect_seconds(reference, 1, passes_of_reference * seconds_of_pass * samples_);
    pace_.expect("calibrate", samples_, calibrating_of_reference / samples_, reference);
  } else {
    pace_.expect_seconds("calibrate", samples_, calibrating_of_reference * passes_of_reference * seconds_of_pass);
  }
  const double trials =
      factor_trials + trials_of_group * range_trial * task.groups + (task.judged ? usual_drafts * draft_trials : 0);
  pace_.expect("choose ranges", task.chosen ? trials : 0, samples_of_trial, "calibrate");
  pace_.expect("measure layers", task.groups + placing_groups, samples_of_layer, "calibrate");
  if (task.reconstructs) pace_.expect("reconstruct weights", 1, 2 * task.groups, "measure layers");
  if (compares_) {
    pace_.expect(first_engine, 1, 1, "tune");
    pace_.expect(engine, usual_engines - 1, engine_of_first, first_engine);
  }
  if (judged_) expect_scores(1 + (compares_ ? usual_engines : 0));
  expect_rounds(judged_ ? perhaps_rounds : 1);
}

void Int8Pace::expect_rounds(double rounds) {
  if (compares_ && compiles_) pace_.expect(round, rounds, round_of_first, first_engine);
  else if (judged_) pace_.expect(round, rounds, round_of_sample / samples_, scoring);
  else pace_.expect(round, rounds, round_of_tune, "tune");
}

void Int8Pace::expect_scores(double more) { pace_.expect(scoring, scored_ + more, score_cost_, reference); }

void Int8Pace::referenced(double score_cost) {
  score_cost_ = score_cost;
  expect_scores(1 + (compares_ ? usual_engines : 0));
  // Where little was to be timed for floating point, as its kernels are few or known, INT8 may yet have much.
  constexpr double little = 0.5, to_compile = 2, to_time = 0.01;  // seconds of a group of scales
  if (compares_ && pace_.spent("tune") < little * pace_.spent(reference))
    pace_.expect_seconds(first_engine, 1, groups_ * (compiles_ ? to_compile : to_time));
}

void Int8Pace::compares(size_t engines) {
  pace_.expect(engine, static_cast<double>(engines) - 1, engine_of_first, first_engine);
  expect_scores(std::max(0.0, static_cast<double>(engines) - scored_) + 1);
}

void Int8Pace::scaled() {
  for (const char* part : {"calibrate", "choose ranges", "measure layers", "place layers", "reconstruct weights"})
    pace_.skip(part);
  pace_.skip(first_engine), pace_.skip(engine);
  if (pace_.spent(first_engine) > 0) return;
  compares_ = false;  // a cache knew the scales
  expect_rounds(judged_ ? perhaps_rounds : 1);
}

void Int8Pace::searches(bool enough) {
  // Where the first is not enough, rounds halve what may be in INT8 as long as there is something to halve.
  constexpr double most = 6;
  searches(0, enough ? 1 : std::min(most, 1 + std::ceil(std::log2(std::max(1.0, groups_)))));
}

void Int8Pace::searches(int done, double more) {
  expect_rounds(done + more);
  expect_scores(more);
}

}  // namespace tenon::compile
