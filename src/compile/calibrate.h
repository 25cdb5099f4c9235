// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/calibration.h>
#include <tenon/tenon.hpp>

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "quant/recipe.h"
#include "quant/structure.h"

namespace tenon::compile {

/// A way to scale a network's tensors.
struct Scaling {
  std::string what;      ///< how the scales came about, such as "of all values seen"
  quant::Recipe recipe;  ///< with everything in INT8 that may be
};

/// What calibration works with beside the graph and the data.
struct Setting {
  CalibrationOptions options;
  Shapes shapes;  ///< sizes of dynamic inputs
  int threads = 1;
  plan::Records records;  ///< kernels to use where known
  Progress progress;
  Logger logger;
  bool by_channel = true;  ///< some tensors may have scales by channel (equalise)
  /// ONNX names of the graph's values (same_tensors), for caches by other tools.
  std::map<std::string, std::string> names = {};
  /// For CalibrationMethod::automatic: the index of the best of several; none: the first, of least error on the probes.
  std::function<size_t(const std::vector<Scaling>&)> prefer = {};
  /// Gets one of those that `prefer` is likely to get, as soon as it is known: what all in INT8 loses by it says early
  /// how long the build will take.
  std::function<void(const Scaling&)> foresee = {};
  bool takes_outputs = false;  ///< the only bare output convolution may be in INT8, as a limit says what it may lose
};

/// Runs the optimised floating point graph over the data and chooses a quantiser for each value and weight that the
/// graph's structure lets be stored in INT8. A cache that the data's read_cache gives is used instead where it is
/// of this graph, these weights, preprocessing and options, or TensorRT's; what is computed goes to write_cache.
/// Throws Error(usage) where the data does not fit or is empty, naming a sample that holds NaN.
quant::Recipe calibrate(const ir::Graph& graph, Calibrator& data, const Setting& setting);

}  // namespace tenon::compile
