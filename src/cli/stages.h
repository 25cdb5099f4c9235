// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tenon::cli {

/// What a build goes through: tuning alone, calibration as well, or calibration and engines that are judged.
enum class BuildKind { plain, calibrated, judged };

/// Where a build is among all that it does, by the stages that it reports one after the other.
class Stages {
 public:
  struct Place {
    int step = 1, of = 1;
    double done = 0;   // of the whole, by time; never goes back
    double left = -1;  // seconds; below 0: too early to tell
  };

  explicit Stages(BuildKind kind) : kind_(kind) {}

  /// `seconds` since the beginning; `left` as the build has it, below 0 where this stage does not know: what was told
  /// last counts down.
  Place at(const std::string& stage, double seconds, double left);

 private:
  int step_of(const std::string& stage) const;

  BuildKind kind_;
  int step_ = 0;  // from 0
  bool calibrates_ = false, tries_recurrent_ = false;
  double end_ = -1, last_ = 0;  // when all is done, as told last; of the whole
};

}  // namespace tenon::cli
