#pragma once
#include <tenon/calibration.h>
#include <tenon/tenon.h>

#include "plan/plan.h"
#include "quant/recipe.h"
#include "quant/structure.h"

namespace tenon::quant {

/// What calibration works with beside the graph and the data.
struct Setting {
  CalibrationOptions options;
  Shapes shapes;          ///< sizes of dynamic inputs
  int threads = 1;
  plan::Records records;  ///< kernels to use where known
  Progress progress;
};

/// Runs the optimised floating point graph over the data and chooses a quantiser for each value and weight that the
/// graph's structure lets be stored in eight bits. Nothing of it depends on how the samples were batched.
/// Throws Error(usage) where the data does not fit or is empty, naming a sample that holds NaN.
Recipe calibrate(const ir::Graph& graph, Calibrator& data, const Setting& setting);

}  // namespace tenon::quant
