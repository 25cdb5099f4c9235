#pragma once
#include <tenon/calibration.h>
#include <tenon/error.h>
#include <tenon/judge.h>
#include <tenon/limits.h>
#include <tenon/tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Tenon: an ONNX model in, an engine tuned for this machine out. Everything that fails on the user's side throws
/// tenon::Error.
namespace tenon {

enum class Precision {
  fp32,
  tf32,  ///< on a GPU: products of f32 round their operands to 10 bits of mantissa
  fp16,  ///< on a GPU: tensors between the large layers are f16, sums f32
  /// On a GPU the same with bf16: the range of f32 and 7 bits of mantissa. On a CPU with AMX or AVX512-BF16:
  /// convolutions and products round their operands to it, where that is measured faster; tensors and sums are f32.
  bf16,
  /// Eight bits, after calibration, where the structure of the model allows it and they are measured faster, which may
  /// be nowhere; elsewhere fp32, on a GPU fp16.
  int8,
  /// On a GPU of compute capability 8.9 or later: the same with e4m3 floats of eight bits instead of integers, for
  /// convolutions of one group and products whose channels fill groups of 16; elsewhere fp16.
  fp8,
  /// The fastest by measurement: of fp32, on a GPU fp16, and, with calibration data, int8 within the error asked for;
  /// with a judge also bf16, layer by layer, on a CPU that has it.
  best,
};

/// Name, element type and sizes of an engine's input or output; -1 is a size that may change from run to run.
struct TensorInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<int64_t> shape;
};

/// One line of progress: what is done, how far (0 to 1), and the seconds still expected (negative: unknown). Return
/// false to cancel.
using Progress = std::function<bool(const std::string& stage, double done, double seconds_left)>;

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// What an INT8 build is for: the shortest run, or the fewest bytes of weights.
enum class Objective : uint8_t { latency, size };

struct BuildOptions {
  std::string device = "cpu";  ///< or "cuda", "cuda:N"
  Precision precision = Precision::fp32;
  Shapes shapes = {};             ///< sizes of inputs that are dynamic in the model; a missing batch is 1
  int threads = 0;                ///< 0: the cores this process may use
  double budget_seconds = -1;     ///< time for tuning; below 0: until every tactic is measured, 0: none
  std::string timing_cache = {};  ///< file; "" is the user's cache folder, "-" is none
  std::vector<std::string> skip_passes = {};
  std::string external_root = {};  ///< folder that external data may lie in, beside the model's own
  bool lenient = false;            ///< attributes that an op does not have are left out, not refused
  /// Joins the model's metadata_props. "tenon.preprocess" says how pictures become the input: detect and classify
  /// go by it.
  std::map<std::string, std::string> metadata = {};
  bool strict = false;             ///< no Winograd; on a GPU f32 on plain units, bytes with the CPU's bits
  bool vendor = true;                          ///< on a GPU: cuBLASLt and cuDNN, where found, race own kernels
  std::shared_ptr<Calibrator> calibrator = {};  ///< data for Precision::int8 and fp8
  CalibrationOptions calibration = {};
  /// For int8 and fp8: layers that take longer in eight bits stay in floating point, or none does.
  Objective objective = Objective::latency;
  /// For int8 and fp8: the engine is the best found that loses at most `max_drop` points of this metric. Without one,
  /// int8's layers are chosen by calibration.target_error alone, and all of fp8's that may be.
  std::shared_ptr<Judge> judge = {};
  std::optional<double> max_drop = {};  ///< absent: the judge's usual_drop
  Progress progress = {};
  /// Told what is odd and not wrong, as weights that are not finite.
  std::function<void(const std::string&)> warn = {};
};

struct LayerTime {
  std::string name;
  std::vector<std::string> origins;  ///< ONNX nodes
  std::string tactic;
  double microseconds = 0;
};

/// Bytes of a session, known before its first run and the same after it.
struct MemoryUse {
  int64_t arena_bytes = 0, arena_lower_bound = 0, weights_bytes = 0;
  int64_t input_bytes = 0, workspace_bytes = 0;  ///< on a GPU: inputs as copied there, and what kernels work in
  /// On a GPU what a session allocates there, to the byte; the driver hands out whole pages, and keeps its own state,
  /// kernels and graphs beside that.
  int64_t device_bytes = 0;
};

class Session;

/// A built model: immutable, shared freely between threads, cheap to copy.
class Engine {
 public:
  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Written to a temporary file beside `path` and renamed. Throws Error(io).
  void save(const std::string& path) const;
  /// Every byte is hashed and checked before use. Throws Error(bad_engine), Error(io).
  static Engine load(const std::string& path);
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  /// The model's metadata_props, with "names" and the like.
  const std::map<std::string, std::string>& metadata() const;
  /// The same engine on another device: "cpu", "cuda", "cuda:N". What it knows of other devices stays with it.
  Engine on(const std::string& device) const;
  /// The device that sessions run on.
  const std::string& device() const;
  /// A session for the sizes given (the engine's own where none are). `threads` 0: as many as the engine was built for,
  /// at most the cores there are.
  Session session(int threads = 0, const Shapes& shapes = {}) const;
  /// The same with the arena of `other`, a session on the same GPU whose arena is at least as large: for engines that
  /// run in turn, as a detector and the classifier of what it finds. Runs of the two wait for one another, but those of
  /// run_async, which the caller orders; device_output() holds until the other runs. Throws Error(usage) where the
  /// other's arena is smaller or elsewhere.
  Session session(Session& other, const Shapes& shapes = {}) const;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Runs an engine; belongs to one thread at a time and throws Error(usage) when two use it at once.
class Session {
 public:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();
  /// Inputs by name, outputs in the model's order. Throws Error(usage) naming an input that is missing, unknown, or of
  /// wrong type or sizes.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs);
  /// The steady state: no allocation. `inputs` and `outputs` in the engine's order; outputs are the session's memory,
  /// valid until the next run.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// Memory of the session for an input, in the engine's order, of the sizes of the last run or else those the session
  /// was made for. A run that is given this tensor copies nothing on the host; on a GPU it is page-locked.
  Tensor input(size_t at);
  /// For an engine on a GPU: puts a run on `stream` (a CUstream or cudaStream_t of the device's primary context) and
  /// returns. `inputs` and `outputs` are addresses of dense tensors in device memory, in the engine's order, of the
  /// sizes of the last run or else those the session was made for; 0 stands for the session's own memory. What uses the
  /// session next must be ordered behind the run. Throws Error(unsupported) on the CPU, and where a node runs there.
  void run_async(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream);
  /// Addresses of the session's own memory of an input or output on the GPU; 0 on the CPU.
  uint64_t device_input(size_t at) const;
  uint64_t device_output(size_t at) const;
  /// Time of each step over `iterations` runs on the present inputs, in order.
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// Milliseconds that each of `iterations` runs takes on the GPU, on the operands of the last run, without the copies
  /// of inputs and outputs; empty for an engine on the CPU.
  std::vector<double> device_times(int iterations);
  MemoryUse memory() const;
  int threads() const;

 private:
  friend class Engine;
  std::unique_ptr<Impl> impl_;
};

/// Model file to engine. Throws Error naming file, node and reason.
Engine build(const std::string& model, const BuildOptions& options = {});
inline Engine load(const std::string& engine) { return Engine::load(engine); }
/// The engine with its kernels timed anew, on options.device; on a GPU also from fp32 to the tf32 or fp16 that
/// options.precision asks for. Throws Error(unsupported) for a precision that takes the model.
Engine retune(const Engine& engine, const BuildOptions& options = {});
/// Engine::load for an engine, build with `options` for a model: whichever the file is.
Engine open(const std::string& model_or_engine, const BuildOptions& options = {});

}  // namespace tenon
