// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/buffer.h>
#include <tenon/calibration.h>
#include <tenon/device.h>
#include <tenon/engine.h>
#include <tenon/judge.h>
#include <tenon/limits.h>
#include <tenon/logger.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// From a model to an engine.
namespace tenon {

/// One line of progress: what is done, how far (0 to 1), and the seconds still expected (negative: unknown). Return
/// false to cancel.
using Progress = std::function<bool(const std::string& stage, double done, double seconds_left)>;

/// What an INT8 build is for: the shortest run, or the fewest bytes of weights.
enum class Objective : uint8_t { latency, size };

/// How constant weights of products lie in an engine whose data stay in floating point: as the model has them, or as
/// integers in blocks with a scale each.
enum class Weights : uint8_t { given, int8, int4 };

struct BuildOptions {
  Device device = {};  ///< the CPU; or "cuda", "cuda:N"
  Precision precision = Precision::fp32;
  Shapes shapes = {};             ///< sizes of dynamic inputs, -1 where not given; a missing batch is 1
  /// Ranges of sizes, each tuned at its best ones; sizes outside all of them are then refused. None: any sizes run,
  /// and `shapes` are tuned for. Inputs that a profile leaves out have the sizes of `shapes`.
  std::vector<Profile> profiles = {};
  /// Values that live from run to run: the output that gives each, and the input that takes it in the next run. See
  /// State.
  std::vector<std::pair<std::string, std::string>> state = {};
  int threads = 0;                ///< 1 to 1024; 0: the cores this process may use
  double budget_seconds = -1;     ///< time for tuning; below 0: until every tactic is measured, 0: none
  std::string timing_cache = {};  ///< file; "" is the user's cache folder, "-" is none
  std::vector<std::string> skip_passes = {};
  /// Folder that external data may lie in, beside the model's own; of a model from memory, where it lies.
  std::string external_root = {};
  bool lenient = false;  ///< attributes that an operator does not have are left out with a warning, not refused
  /// Joins the model's metadata_props. "tenon.preprocess" says how images become the input: detect and classify
  /// go by it.
  std::map<std::string, std::string> metadata = {};
  bool strict = false;  ///< no Winograd or Strassen; on a GPU plain f32, bytes with the CPU's bits
  bool vendor = true;                           ///< on a GPU: cuBLASLt and cuDNN, where found, are candidates, too
  std::shared_ptr<Calibrator> calibrator = {};  ///< data for Precision::int8 and fp8
  CalibrationOptions calibration = {};
  /// For int8 and fp8: layers that take longer in 8 bits stay in floating point, or none does.
  Objective objective = Objective::latency;
  /// For int8 and fp8: the engine is the best found that loses at most `max_drop` points of this metric. Without one,
  /// int8's layers are chosen by calibration.target_error alone, and all of fp8's that may be.
  std::shared_ptr<Judge> judge = {};
  std::optional<double> max_drop = {};  ///< absent: the judge's usual_drop
  Progress progress = {};
  Logger logger = {};                 ///< also of the engine and its sessions
  std::optional<Limits> limits = {};  ///< of this build, and together of all sessions of its engine
  Weights weights = Weights::given;   ///< of MatMul and Gemm; not beside int8 and fp8
  int weight_block = 32;              ///< weights of one output that share a scale: 16 to 256, a power of two
};

/// Model file to engine. Throws Error naming file, node and reason.
TENON_API Engine build(const std::string& model, const BuildOptions& options = {});
/// The bytes of a model file to an engine, which keeps `model` while it lives, for the weights. External data is
/// refused, unless `external_root` says where it lies.
TENON_API Engine build(const Buffer& model, const BuildOptions& options = {});
/// The same; weights are copied, and `model` may go afterwards.
TENON_API Engine build(std::span<const std::byte> model, const BuildOptions& options = {});
/// The model that an open file holds, which stays open and may be closed afterwards: a regular file is mapped, whatever
/// else is read to its end. External data is refused as above. Throws Error(io) where it cannot be read.
TENON_API Engine build_fd(int descriptor, const BuildOptions& options = {});
/// The engine with its kernels timed anew, on options.device; on a GPU also from fp32 to the tf32 or fp16 that
/// options.precision asks for. Throws Error(unsupported) for a precision that takes the model.
TENON_API Engine retune(const Engine& engine, const BuildOptions& options = {});
/// Engine::load for an engine, build with `options` for a model: whichever the file is.
TENON_API Engine open(const std::string& model_or_engine, const BuildOptions& options = {});

}  // namespace tenon
