// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "plan/plan.h"
#include "plan/timing_cache.h"
#include "compile/pace.h"

namespace tenon::compile {

/// What a build in INT8 works with. All must outlive it.
struct Int8Task {
  const plan::Plan& base;     ///< its graph is optimised, in floating point, and not lowered
  const ir::Graph& imported;  ///< before it was optimised
  const BuildOptions& options;
  plan::TimingCache& cache;
  Pace& pace;  ///< what options.progress tells
  /// Lowers a plan's graph for its device, tunes it, and adds to the cache.
  std::function<void(plan::Plan&)> finish;
};

/// The quantised plan where it is faster than the floating point one, layer by layer, and the floating point one where
/// it is not at all; with a judge, the fastest that loses little enough. Without time to measure, or sizes to measure
/// at, and where the engine is to be small, everything is quantised that may be. Throws Error(usage) where calibration
/// data is missing or does not fit.
plan::Plan plan_int8(const Int8Task& task);

}  // namespace tenon::compile
