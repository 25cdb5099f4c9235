// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/export.h>

#include <cstdint>
#include <string>

/// Judging engines on the user's data: how a build knows what INT8 costs.
namespace tenon {

class Engine;

/// What an engine is worth, in points of a metric: 0 to 100.
struct Score {
  double value = 0;
  double drop = 0;           ///< below the floating point engine's value, on the same data
  double low = 0, high = 0;  ///< 95 % interval of the drop
  std::string objection;     ///< why the engine is not good enough whatever its drop, such as scores that fall; or ""
  /// How far outputs are from the floating point engine's, in any unit: tells apart engines of drops that are alike. 0:
  /// not measured.
  double distance = 0;
};

/// What a harmless change of the data does to the floating point engine's own answers.
struct Jitter {
  double drop = 0;     ///< in points; 0: not measured
  std::string change;  ///< in words, such as "saving the images as JPEG 95 once more"
};

/// A metric with its data. Written by the user, or made by the command from labelled files.
class TENON_API Judge {
 public:
  virtual ~Judge() = default;
  /// Runs the floating point engine, which the others will be compared with, and gives its value. Called first, once.
  virtual double reference(const Engine& engine) = 0;
  virtual Score score(const Engine& engine) = 0;
  /// Points that may be lost where the caller names none. Asked for after `reference`.
  virtual double usual_drop() const { return 0.1; }
  /// What makes usual_drop() what it is, in words; "" where there is nothing to say. Asked for after `reference`.
  virtual std::string limit_reason() const { return {}; }
  /// What drops are compared with for the user. Asked for after `reference`.
  virtual Jitter jitter() const { return {}; }
  /// Its name, and how many samples it is of; asked for after `reference`.
  virtual std::string metric() const = 0;
  virtual int64_t samples() const = 0;
  /// About how long score() takes, in parts of what reference() took: for the time that a build has left. Asked for
  /// after `reference`.
  virtual double score_cost() const { return 0.3; }
};

}  // namespace tenon
