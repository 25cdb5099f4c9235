// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <string>

#include "cli/calibration.h"

namespace tenon::cli {

/// The options of the search for the best engine within a drop of a metric.
struct JudgeOptions {
  std::string eval, pareto, objective;
  double max_drop = -1;  // below 0: not given

  /// --eval, --max-drop, --objective, --pareto.
  void add_to(CLI::App& app);
  /// Puts a judge into `build`, which has its data already, where these options ask for one, where weights are
  /// rounded, and where there is time for it and no --max-error; layers stay in floating point for their error alone
  /// only with --max-error then. Throws Error(usage) where there is nothing to judge and for an unknown objective,
  /// Error(io) for labels that cannot be read.
  void apply(const ModelOptions& model, const DataOptions& data, BuildOptions& build) const;
};

}  // namespace tenon::cli
