// SPDX-License-Identifier: Apache-2.0
#pragma once
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
};

/// dict of name and array.
nb::dict as_dict(const Signature& signature, const std::vector<Tensor>& outputs);
/// The array of the only output, or a tuple.
nb::object as_value(const std::vector<Tensor>& outputs);

class PySession {
 public:
  PySession(const Engine& engine, int threads, const Shapes& shapes);
  PySession(const PySession&) = delete;
  ~PySession();
  /// Lives on while a run of another thread holds it. Throws Error(usage) after close().
  std::shared_ptr<Session> get();
  void close();
  Signature signature;
  std::map<std::string, Held> bound;

 private:
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
void bind_sessions(nb::module_& module);
void bind_engines(nb::module_& module);
void bind_build(nb::module_& module);
void bind_explain(nb::module_& module);
void bind_vision(nb::module_& module);

/// The logger that writes to Python's `logging`, at its present level.
Logger python_logger();

}  // namespace tenon::python
