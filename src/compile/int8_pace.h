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
  /// `done` rounds of the search were judged; `enough`: the first is within the limit, which ends it, or may be. To be
  /// told of each round: one that goes on behind the usual number has one more at least.
  void searches(bool enough, int done);
  /// An engine was judged.
  void scored() { ++scored_; }

 private:
  void expect_scores(double more);
  void expect_rounds(int rounds);

  Pace& pace_;
  bool judged_ = false, compares_ = false;  // engines, for their scales
  bool compiles_ = false;
  double score_cost_ = 0.3, samples_ = 0, groups_ = 0;
  int scored_ = 0;
};

/// Trials of a recipe on all probes, with its weights, that "choose ranges" takes: for factors of channels, for each
/// recipe that is drafted, and for another range of one group on a few probes.
constexpr double factor_trials = 3, draft_trials = 3, range_trial = 0.1;
constexpr double usual_drafts = 5;
/// What comes behind the groups in "measure layers", in groups.
constexpr double placing_groups = 16;

}  // namespace tenon::compile
