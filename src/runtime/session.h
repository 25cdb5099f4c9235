// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/session.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "backends/host_arena.h"
#include "engine/engine.h"
#include "runtime/program.h"
#include "runtime/work_queue.h"

namespace tenon {

/// A session's programs, one for each of the last sizes, and what its runs read and write. Hidden, though its class is
/// not.
struct __attribute__((visibility("hidden"))) Session::Impl {
  using EngineImpl = EngineAccess::Impl;
  /// Holds a session while it is used; a second thread gets an error instead of a race.
  class Busy {
   public:
    enum class Pending { refused, allowed };  // runs in line
    explicit Busy(Impl& session, Pending pending = Pending::refused);
    ~Busy();
    Busy(const Busy&) = delete;

   private:
    Impl& session_;
  };

  Impl(std::shared_ptr<const EngineImpl> of, int threads);

  /// Lets go of the inputs of the last run.
  void release();
  const plan::Plan& plan() const { return engine->plan; }
  size_t input_named(const std::string& name) const;
  size_t output_named(const std::string& name) const;
  /// Throws Error(usage) naming an input of wrong type or on a device that the engine does not run on.
  void check_input(size_t at, const Tensor& tensor) const;
  /// The same of a tensor that an output is to be written to.
  void check_target(size_t at, const Tensor& tensor) const;
  runtime::Program& add_program(const Shapes& shapes);
  runtime::Program& program(std::span<const Tensor> inputs);
  /// The inputs, checked, and dense copies in the place of those that programs cannot read.
  std::span<const Tensor> prepared(std::span<const Tensor> inputs);
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, std::span<const Tensor> targets);
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs);
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, State::Impl& state);
  /// With memory for each output whose sizes are known as `target` gives it.
  std::vector<Tensor> run_to(const std::map<std::string, Tensor>& inputs,
                             const std::function<Tensor(size_t output, const Dims& dims)>& target);
  void run_bound();
  /// Lets the session's thread do it behind what is in line there.
  void put_in_line(std::function<std::vector<Tensor>()> work, Done done);
  void enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs, void* stream);
  /// The program's own memory of an input or output on a GPU; an empty tensor on the CPU.
  Tensor on_device(size_t at, bool is_input);

  std::shared_ptr<const EngineImpl> engine;
  std::optional<size_t> profile = {};  // that all its sizes must lie in
  ThreadPool thread_pool;
  std::shared_ptr<backends::Arena> arena;  // of another session; else programs on a GPU have their own
  std::shared_ptr<backends::Arena> own_arena = std::make_shared<backends::HostArena>();  // of those on the host
  std::list<runtime::Program> programs;   // most recently used first
  std::vector<Tensor> bound_inputs, bound_outputs;
  std::vector<Tensor> given, ready;  // inputs of the present run: as they came, as programs read them
  std::vector<Tensor> dense;         // memory for copies of inputs
  std::vector<Tensor> results;       // of the last run of what is bound
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::atomic<int> pending{0};                // runs in line
  std::unique_ptr<runtime::WorkQueue> queue;  // last, so that its runs end first
};

}  // namespace tenon
