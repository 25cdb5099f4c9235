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
    double done = 0;  // of the whole, by the time that usual networks take
  };

  explicit Stages(BuildKind kind) : kind_(kind) {}

  /// `done`: of the stage. Never goes back.
  Place at(const std::string& stage, double done);

  /// Seconds left after so many; below 0: too early to tell.
  double left(double seconds) const;

 private:
  int step_of(const std::string& stage) const;
  double part(const std::string& stage, double done);

  BuildKind kind_;
  std::string stage_;
  int step_ = 0, engines_ = 0;  // from 0; those that were done in this step
  double last_ = 0;             // of the whole
};

}  // namespace tenon::cli
