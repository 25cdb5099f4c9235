// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tenon.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "vision/spec.h"

namespace tenon::cli {

/// The options of verbs that calibrate.
struct DataOptions {
  std::vector<std::string> data;
  std::string preprocess, cache, method = "auto", effort = "normal";
  CalibrationOptions options;
  std::vector<std::string> keep;
  double max_error = -1;  // below 0: not given

  /// --data, --preprocess, --calibrator, --percentile, --max-error, --calib-cache, --effort, --calib-batch,
  /// --calib-count, --keep.
  void add_to(CLI::App& app);
  /// Puts the data and options into `build`; nothing where no data is given. Throws Error(usage).
  void apply(const ModelOptions& model, BuildOptions& build) const;
};

/// Images, videos, arrays (.npy, .npz:KEY, .npz with a key for each input) and folders of ONNX test data
/// (input_N.pb, or such folders below) as one source, in the order given; `warns` of bad images. Throws Error.
std::shared_ptr<Calibrator> calibration_data(const DataOptions& data, const std::vector<TensorInfo>& inputs,
                                             const Shapes& shapes, bool warns = true);

/// The same with each image saved as a JPEG of this quality once more; nullptr where some of the data are arrays.
std::shared_ptr<Calibrator> resaved_data(const DataOptions& data, const std::vector<TensorInfo>& inputs,
                                         const Shapes& shapes, int quality);

/// How images become the model's one input. `where` is what asks for it. Throws Error(usage).
vision::Spec image_spec(const DataOptions& data, const std::vector<TensorInfo>& inputs, const Shapes& shapes,
                          const std::string& where);

}  // namespace tenon::cli
