#pragma once
#include <tenon/tenon.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"

namespace tenon::cli {

/// The options of verbs that calibrate.
struct DataOptions {
  std::vector<std::string> data;
  std::string preprocess, cache, method = "auto";
  CalibrationOptions options;
  std::vector<std::string> keep;

  /// --data, --preprocess, --calibrator, --percentile, --max-error, --calib-cache, --calib-batch, --calib-count,
  /// --keep.
  void add_to(CLI::App& app);
  /// Puts the data and options into `build`; nothing where no data is given. Throws Error(usage).
  void apply(const ModelOptions& model, BuildOptions& build) const;
};

/// Pictures, videos, arrays (.npy, .npz:KEY, .npz with a key for each input) and folders of ONNX test data
/// (input_N.pb, or such folders below) as one source, in the order given. Throws Error.
std::shared_ptr<Calibrator> calibration_data(const DataOptions& data, const std::vector<TensorInfo>& inputs,
                                             const Shapes& shapes);

}  // namespace tenon::cli
