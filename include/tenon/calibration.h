// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Calibration: from sample data to the scales of an INT8 engine.
namespace tenon {

/// Samples side by side along the first axis of each input.
struct CalibrationBatch {
  std::map<std::string, Tensor> inputs;  ///< by name; "" stands for the only input
  std::vector<std::string> names;        ///< of the samples, for messages; may be empty
};

/// Where calibration takes its data from. Written by the user, or made by the command from files.
class TENON_API Calibrator {
 public:
  virtual ~Calibrator() = default;
  /// How many samples there will be; 0 where that is not known.
  virtual int64_t samples() const { return 0; }
  /// The next batch, of any number of samples; false at the end.
  virtual bool next_batch(CalibrationBatch& batch) = 0;
  /// How samples are prepared, as text: part of what a calibration cache is checked against.
  virtual std::string preprocessing() const { return {}; }
  /// A cache written earlier; empty for none.
  virtual std::string read_cache() { return {}; }
  virtual void write_cache(const std::string&) {}
};

enum class CalibrationMethod {
  automatic,  ///< per tensor, the one of those below with the least error at the network's outputs
  min_max,
  percentile,
  mse,
  entropy,         ///< TensorRT's EntropyCalibration2
  entropy_legacy,  ///< TensorRT's EntropyCalibration
};

/// What --calibrator calls the methods, for messages.
inline constexpr const char* calibration_method_names = "auto, minmax, percentile, mse, entropy or entropy-legacy";
/// The method of one of those names; none for any other text.
TENON_API std::optional<CalibrationMethod> calibration_method_named(std::string_view name);

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::automatic;
  double percentile = 99.99;  ///< for CalibrationMethod::percentile
  int64_t batch = 0;          ///< samples that run together; 0: the model's own batch
  int64_t count = 0;          ///< samples to use at most; 0: all
  /// Relative squared error at the outputs above which layers are left in floating point, the most harmful first;
  /// infinity: none is for its error.
  double target_error = 1e-3;
  /// Weights are rounded up or down one by one so that the layers' sums err least, which takes longer, where that
  /// lowers the error at the outputs.
  bool reconstruct = false;
  /// ONNX nodes that stay in floating point ("fp32"), or in INT8 whatever the error ("int8").
  std::map<std::string, std::string> keep = {};
};

}  // namespace tenon
