// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensors.h"

/// Engines and sessions as Python sees them.
namespace tenon::python {

/// Sessions of an engine for whoever calls it: a call takes an idle one, or waits.
class Pool {
 public:
  Pool(Engine engine, int threads) : engine_(std::move(engine)), threads_(threads) {}
  /// A session until `done`. Without the GIL: it may wait. Makes at most as many as fit beside each other.
  std::unique_ptr<Session> take();
  void give(std::unique_ptr<Session> session);

 private:
  Engine engine_;
  int threads_ = 0;
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<Session>> idle_;
  int made_ = 0, most_ = 1;
};

/// The names of inputs and outputs, as text of Python too.
struct Signature {
  explicit Signature(const Engine& engine);
  /// The same without what is carried from run to run.
  Signature without_carried(const Engine& engine) const;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<nb::object> input_names, output_names;
  /// Throws Error(usage) for a name that is no input's.
  const TensorInfo& input(const std::string& name) const;
};

/// Arguments of a run: by position, by name, or a dict alone.
struct Arguments {
  Held held;
  std::map<std::string, Tensor> inputs;
  Arguments(const Signature& signature, nb::handle values);
  Arguments(const Signature& signature, const nb::args& values, const nb::kwargs& named);

 private:
  /// Arrays of float64 and of the other width of integers are cast to what the input expects, which the log tells.
  void add(const TensorInfo& info, nb::handle value);
  void add_all(const Signature& signature, nb::handle values);
};

/// What a function of tenon._arguments makes of what a caller gave. Raises an error that names the argument.
template <class... Given>
nb::object checked(const char* function, const Given&... given) {
  return nb::module_::import_("tenon._arguments").attr(function)(given...);
}

/// The name of an input or output that a caller gave.
std::string checked_name(nb::handle given);

/// As ONNX Runtime gives them: a list of the outputs named, or of all for None.
nb::object in_order(nb::handle names, const nb::dict& outputs);

/// dict of name and array.
nb::dict as_dict(const Signature& signature, const std::vector<Tensor>& outputs);
/// The array of the only output, or a tuple.
nb::object as_value(const std::vector<Tensor>& outputs);

/// What runs of an engine carry from one to the next; for one run at a time, and says so.
class PyState {
 public:
  PyState(State state, const Engine& engine) : state_(std::move(state)), engine_(engine) {}
  /// Calls `work` with the state. Throws Error(usage) where another call is at it.
  template <class Work>
  auto with(const Work& work) {
    if (busy_.exchange(true))
      throw Error(Code::usage, "two calls use the state at once", {.hint = "a state belongs to one run at a time"});
    struct Free {
      std::atomic<bool>& busy;
      ~Free() { busy = false; }
    } const free{busy_};
    return work(state_);
  }
  const Engine& engine() const { return engine_; }

 private:
  State state_;
  Engine engine_;
  std::atomic<bool> busy_{false};
};

/// How a session is made: for sizes, or for a profile.
struct SessionOptions {
  int threads = 0;
  Shapes shapes = {};
  std::optional<std::string> profile = {};
};

class PySession {
 public:
  PySession(const Engine& engine, const SessionOptions& options, nb::handle state);
  PySession(const PySession&) = delete;
  ~PySession();
  /// Lives on while a run of another thread holds it. Throws Error(usage) after close().
  std::shared_ptr<Session> get();
  void close();
  /// Inputs and outputs as a caller sees them: with a state, those that are not carried.
  const Signature& seen() const { return state_.is_none() ? signature : open_; }
  /// A PyState, or None.
  nb::object state() const { return state_; }
  void use(nb::handle state);
  /// Throws Error(usage) where runs carry a state, which `what` does not.
  void require_no_state(const char* what) const;
  Signature signature;
  std::map<std::string, Held> bound;

 private:
  Signature open_;
  nb::object state_ = nb::none();
  std::shared_ptr<Session> session_;
};

class PyEngine {
 public:
  PyEngine(Engine engine, std::string path);
  ~PyEngine();
  /// Throws Error(usage) after close().
  const Engine& get() const;
  std::shared_ptr<Pool> pool() const;
  void close();
  std::unique_ptr<Signature> signature;
  std::string path;  ///< of its file; "" where it has none

 private:
  std::optional<Engine> engine_;
  mutable std::shared_ptr<Pool> pool_;
};

/// Puts `call` (of what a run throws or gives) behind a Python object with set_result and set_exception.
nb::object exception_of(const std::exception_ptr& error);

/// Inputs as a model (a path, or bytes) states them: -1 for sizes that are free.
std::vector<TensorInfo> stated_inputs(nb::handle model, const std::string& external_root, bool lenient);

void bind_models(nb::module_& module);
void bind_states(nb::module_& module);
void bind_custom_ops(nb::module_& module);
void bind_sessions(nb::module_& module);
void bind_engines(nb::module_& module);
void bind_build(nb::module_& module);
void bind_explain(nb::module_& module);
void bind_detections(nb::module_& module);
void bind_segments(nb::module_& module);
void bind_vision(nb::module_& module);

/// The logger that writes to Python's `logging`, at its present level.
Logger python_logger();

}  // namespace tenon::python
