// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Running engines.
namespace tenon {

struct LayerTime {
  std::string name;
  std::vector<std::string> origins;  ///< ONNX nodes
  std::string tactic;
  double microseconds = 0;  ///< of all that a run of the engine takes there; of a loop without what its body takes
  std::string inside = {};  ///< of a step in a body: the node whose body it is, behind those around that one
  double rounds = 1;        ///< how often a run of the engine comes there
};

/// Bytes of a session, known before its first run and the same after it.
struct MemoryUse {
  /// Of values between steps; of those alive at once, below which no arena can be; of weights as kernels read them.
  int64_t arena_bytes = 0, arena_lower_bound = 0, weights_bytes = 0;
  int64_t input_bytes = 0, workspace_bytes = 0;  ///< on a GPU: inputs as copied there, and what kernels work in
  /// On a GPU what a session allocates there, to the byte; the driver hands out whole pages, and keeps its own state,
  /// kernels and graphs beside that.
  int64_t device_bytes = 0;
};

/// What runs of an engine carry from one to the next (BuildOptions::state): caches of attention, states of recurrent
/// layers. It belongs to its user, who may keep several for one session, and to one run at a time.
class TENON_API State {
 public:
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();
  /// Lets it be as Engine::state gave it.
  void reset();
  /// Another of the same content, which goes its own way.
  State fork() const;
  /// What the next run will take as that input: memory of the state, valid until then; empty before the first run where
  /// its sizes are not known yet. Throws Error(usage) for an input that is not carried.
  Tensor get(const std::string& input) const;
  /// Lets the next run take a copy of this. Throws Error(usage) for an input that is not carried, or another type.
  void set(const std::string& input, const Tensor& tensor);

 private:
  friend class Engine;
  friend class Session;
  struct Impl;
  explicit State(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Runs an engine; belongs to one thread at a time and throws Error(usage) when two use it at once.
/// Inputs may have strides and lie in the memory of the process or, for an engine on a GPU, of that GPU. A run reads
/// them where they are when they are dense and on the engine's device; it copies them once otherwise. On a GPU that,
/// and writing outputs in place, holds from the second run with the same tensors on, where each begins at a multiple of
/// 256 bytes, no output overlaps anything else and no node runs on the CPU; else they are copied on the device.
class TENON_API Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  /// Waits for runs of run_async.
  ~Session();
  /// Inputs by name, outputs in the model's order, each a tensor of its own in the memory of the process. On a CPU they
  /// are written right into it, where sizes are known before the run; on a GPU they are copied once more. Throws
  /// Error(usage) naming an input that is missing, unknown, or of wrong type or sizes.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs);
  /// The same of an engine that carries values: `inputs` are the others, and what is carried is taken from `state` and
  /// left there. Outputs that are carried are views of the state, valid until its next run.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, State& state);
  /// The steady state: no allocation. `inputs` and `outputs` in the engine's order; outputs are the session's memory,
  /// valid until the next run.
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// What run() reads as that input, until another is bound; an empty tensor unbinds. Throws Error(usage) naming an
  /// input that is unknown, or of wrong type.
  void bind_input(const std::string& name, const Tensor& tensor);
  /// Where run() leaves that output: dense memory of the process or, for an engine on a GPU, of that GPU, of the
  /// output's type and sizes, that overlaps no input. The kernels write there, or on a GPU, see above, it is copied. An
  /// empty tensor unbinds. Throws Error(usage) naming an output that is unknown, or of wrong type.
  void bind_output(const std::string& name, const Tensor& tensor);
  /// A run on what is bound, without allocation in the steady state; an input that is not is read from input(). Throws
  /// Error(usage) where a bound output has other sizes than the run gives.
  void run();
  /// An output of the last run(), in the engine's order: the bound tensor, or memory of the session that is valid until
  /// the next run. Throws Error(usage) behind the last output, and before the first run.
  Tensor output(size_t at) const;
  /// The run of these inputs on a thread of the session, behind those that were put there before; the outputs are as
  /// run(inputs) gives them. Until it is done other members throw Error(usage); `inputs` are held as long.
  std::future<std::vector<Tensor>> run_async(std::map<std::string, Tensor> inputs);
  /// The same; `done` gets the outputs or what was thrown, on that thread. It must not throw, nor end the session.
  using Done = std::function<void(std::vector<Tensor> outputs, std::exception_ptr error)>;
  void run_async(std::map<std::string, Tensor> inputs, Done done);
  /// The same of run(), on what is bound when it begins; `done` gets the outputs that output() gives.
  std::future<std::vector<Tensor>> run_async();
  void run_async(Done done);
  /// Memory of the session for an input, in the engine's order, of the sizes of the last run or else those the session
  /// was made for. A run that is given this tensor copies nothing on the host; on a GPU it is page-locked. Throws
  /// Error(usage) behind the last input.
  Tensor input(size_t at);
  /// For an engine on a GPU: puts a run on `stream` (a CUstream or cudaStream_t of the device's primary context) and
  /// returns. `inputs` and `outputs` are dense tensors on that GPU, in the engine's order, of the sizes of the last run
  /// or else those the session was made for; an empty tensor stands for the session's own memory. What uses the session
  /// next must be ordered behind the run. Throws Error(unsupported) on the CPU, and where a node runs there;
  /// Error(usage) naming a tensor of another type, other sizes or on another device.
  void enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream);
  /// The same with what is bound.
  void enqueue(void* stream);
  /// The session's own memory of an input or output on the GPU; an empty tensor on the CPU.
  Tensor device_input(size_t at) const;
  Tensor device_output(size_t at) const;
  /// Mean time of each step in `iterations` runs on these inputs, in order; of 0 runs zeros.
  std::vector<LayerTime> profile(std::span<const Tensor> inputs, int iterations);
  /// Milliseconds that each of `iterations` runs takes on the GPU, on the operands of the last run, without the copies
  /// of inputs and outputs; empty for an engine on the CPU.
  std::vector<double> device_times(int iterations);
  MemoryUse memory() const;
  int threads() const;

 private:
  friend class Engine;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
