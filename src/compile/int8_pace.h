// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "compile/pace.h"

namespace tenon::compile {

/// What a build in INT8 expects to do, and how long that takes: of each part, before it has a pace of its own, by the
/// part that it is most like. Figures are those of SqueezeNet, MobileNetV2, YOLOX-nano, YOLOv5n and YOLOv8n on a CPU.
class Int8Pace {
 public:
  struct Task {
    bool judged, chosen, reconstructs;  // by a judge; scales of several methods; weights one by one
    double groups, samples;             // of scales; of the data
    bool compiles = false;              // kernels, which takes longer than timing them
  };
  static constexpr const char *reference = "reference", *first_engine = "first engine", *engine = "engine",
                              *round = "round", *scoring = "scoring";

  explicit Int8Pace(Pace& pace) : pace_(pace) {}

  void expect(const Task& task);
  /// The reference is known; a score takes such a part of its time.
  void referenced(double score_cost);
  /// So many engines are judged for their scales.
  void compares(size_t engines);
  /// Scales are known, and so may be what all in INT8 loses, too much or not.
  void scaled();
  /// Whether all in INT8 loses little enough, as the scales' engines tell, so that the first round ends the search.
  void searches(bool enough);
  /// `done` rounds of the search were judged, and so many more are likely.
  void searches(int done, double more);
  /// An engine was judged.
  void scored() { ++scored_; }

 private:
  void expect_scores(double more);
  void expect_rounds(double rounds);

  Pace& pace_;
  bool judged_ = false, compares_ = false;  // engines, for their scales
  bool compiles_ = false;
  double score_cost_ = 0.3, samples_ = 0, groups_ = 0;
  int scored_ = 0;
};

/// Trials of a recipe on all probes, with its weights, that "choose ranges" takes: for factors of channels, for each
/// recipe that is drafted, and for another range of one group on a few probes. Factors are three trials, each with the
/// making of them, and the first of all with what others need.
constexpr double factor_trials = 4.5, draft_trials = 3, range_trial = 0.25;
constexpr double usual_drafts = 5;
constexpr double trials_of_group = 0.4;  ///< of other ranges, where channels may have factors
/// What comes behind the groups in "measure layers", in groups.
constexpr double placing_groups = 16;

}  // namespace tenon::compile
