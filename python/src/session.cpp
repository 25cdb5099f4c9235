// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

namespace tenon::python {

PySession::PySession(const Engine& engine, const SessionOptions& options, nb::handle state)
    : signature(engine), open_(signature.without_carried(engine)) {
  use(state);
  const nb::gil_scoped_release free;
  session_ = std::make_shared<Session>(options.profile ? engine.session(*options.profile, options.threads)
                                                       : engine.session(options.threads, options.shapes));
}

void PySession::use(nb::handle state) {
  if (!state.is_none() && !nb::isinstance<PyState>(state))
    throw Error(Code::usage, "the state is no tenon.State", {.hint = "take one from engine.state()"});
  state_ = nb::borrow(state);
}

void PySession::require_no_state(const char* what) const {
  if (!state_.is_none())
    throw Error(Code::usage, std::string(what) + " carries no state",
                {.hint = "run(inputs) does; session.state = None leaves the state out"});
}

PySession::~PySession() { close(); }

std::shared_ptr<Session> PySession::get() {
  if (!session_) throw Error(Code::usage, "the session is closed", {.hint = "make another: engine.session()"});
  return session_;
}

void PySession::close() {
  {
    // Its end waits for runs whose callbacks need the GIL.
    std::shared_ptr<Session> session = std::move(session_);
    const nb::gil_scoped_release free;
    session.reset();
  }
  bound.clear();
}

namespace {

/// What a run in the background gives back to Python: made with the GIL, and ended with it.
struct Pending {
  nb::object future, signature_owner;
  Arguments arguments;
  const Signature* signature;
  bool as_dict;
};

void settle(Pending* pending, const std::vector<Tensor>& outputs, const std::exception_ptr& error) {
  if (!Py_IsInitialized()) return;
  const nb::gil_scoped_acquire hold;
  const std::unique_ptr<Pending> ends(pending);
  try {
    if (error) pending->future.attr("_settle")(nb::none(), exception_of(error));
    else
      pending->future.attr("_settle")(
          pending->as_dict ? nb::object(as_dict(*pending->signature, outputs)) : as_value(outputs), nb::none());
  } catch (nb::python_error& fault) {
    fault.discard_as_unraisable("tenon: a run's future");
  }
}

nb::object run_async(nb::handle self, Arguments arguments, bool dict) {
  auto& session = nb::cast<PySession&>(self);
  nb::object future = nb::module_::import_("tenon._future").attr("Future")();
  std::map<std::string, Tensor> inputs = arguments.inputs;
  auto pending =
      std::make_unique<Pending>(Pending{future, nb::borrow(self), std::move(arguments), &session.signature, dict});
  std::shared_ptr<Session> shared = session.get();
  {
    Pending* given = pending.get();
    const nb::gil_scoped_release free;
    const std::shared_ptr<Session> native = std::move(shared);
    native->run_async(std::move(inputs), [given](std::vector<Tensor> outputs, std::exception_ptr error) {
      settle(given, outputs, error);
    });
  }
  static_cast<void>(pending.release());
  return future;
}

/// Calls `work` with the session, without the GIL; the session may end there.
template <class Work>
auto with_session(PySession& self, const Work& work) {
  std::shared_ptr<Session> shared = self.get();
  const nb::gil_scoped_release free;
  const std::shared_ptr<Session> session = std::move(shared);
  return work(*session);
}

std::vector<Tensor> run(PySession& self, const std::map<std::string, Tensor>& inputs) {
  const nb::object held = self.state();
  if (held.is_none()) return with_session(self, [&](Session& session) { return session.run(inputs); });
  auto& state = nb::cast<PyState&>(held);
  const std::vector<Tensor> all = state.with([&](State& carried) {
    return with_session(self, [&](Session& session) { return session.run(inputs, carried); });
  });
  // What is carried stays in the state.
  std::vector<Tensor> open;
  for (size_t at = 0, next = 0; at < all.size() && next < self.seen().outputs.size(); ++at)
    if (self.signature.outputs[at].name == self.seen().outputs[next].name) open.push_back(all[at]), ++next;
  return open;
}

/// The session's memory, held by whoever has the array.
nb::object own_input(PySession& self, size_t at) {
  auto* keep = new std::shared_ptr<Session>(self.get());
  const nb::capsule owner(keep, [](void* kept) noexcept {
    const nb::gil_scoped_release free;
    delete static_cast<std::shared_ptr<Session>*>(kept);
  });
  return to_python((*keep)->input(at), owner);
}

Tensor bindable(PySession& self, const std::string& name, nb::handle value, DType type, bool writable) {
  self.bound.erase(name);
  if (value.is_none()) return {};
  Held held;
  Tensor tensor = held.tensor(value, type, name, writable);
  self.bound[name] = std::move(held);
  return tensor;
}

std::vector<Tensor> tensors_of(Held& held, nb::handle values, const std::vector<TensorInfo>& infos, bool writable) {
  std::vector<Tensor> tensors;
  for (nb::handle value : values) {
    if (tensors.size() == infos.size()) throw Error(Code::usage, "more tensors than the engine has");
    const TensorInfo& info = infos[tensors.size()];
    tensors.push_back(value.is_none() ? Tensor() : held.tensor(value, info.dtype, info.name, writable));
  }
  return tensors;
}

}  // namespace

namespace {

using SessionClass = nb::class_<PySession>;

void bind_layer_times(nb::module_& module) {
  nb::class_<LayerTime>(module, "LayerTime", "How long a step of the engine takes.")
      .def_ro("name", &LayerTime::name, "The step's name.")
      .def_ro("origins", &LayerTime::origins, "ONNX nodes that it stands for.")
      .def_ro("tactic", &LayerTime::tactic, "The kernel that runs it.")
      .def_ro("microseconds", &LayerTime::microseconds, "Mean time of a run.")
      .def("__repr__", [](const LayerTime& self) {
        return "LayerTime(" + self.name + ", " + self.tactic + ", " + std::to_string(self.microseconds) + " us)";
      });
}

void bind_runs(SessionClass& session) {
  session
      .def(
          "__call__",
          [](PySession& self, const nb::args& values, const nb::kwargs& named) {
            const Arguments arguments(self.seen(), values, named);
            return as_value(run(self, arguments.inputs));
          },
          nb::sig("def __call__(self, *inputs: typing.Any, **named: typing.Any) -> typing.Any"),
          "Runs on inputs in the model's order or by name. Gives the output as an array, or a tuple of several.\n"
          "Arrays with another type or other sizes than the input's raise Error(usage).")
      .def(
          "run",
          [](PySession& self, nb::handle inputs) {
            if (inputs.is_none()) {
              self.require_no_state("a run on what is bound");
              const auto outputs = with_session(self, [&](Session& session) {
                std::vector<Tensor> copies;
                session.run();
                for (size_t at = 0; at < self.signature.outputs.size(); ++at)
                  copies.push_back(session.output(at).copy());
                return copies;
              });
              return as_dict(self.signature, outputs);
            }
            const Arguments arguments(self.seen(), inputs);
            return as_dict(self.seen(), run(self, arguments.inputs));
          },
          nb::arg("inputs") = nb::none(), nb::sig("def run(self, inputs: typing.Any = None) -> dict[str, typing.Any]"),
          "Runs on a dict of arrays by input name, an array, or a list of arrays in the inputs' order; gives a dict "
          "of\n"
          "arrays by output name. Without any it runs on what bind_input and bind_output have set, and gives copies "
          "of\n"
          "the outputs.")
      .def(
          "run",
          [](PySession& self, nb::handle names, nb::handle feed) {
            const Arguments arguments(self.seen(), feed);
            return in_order(names, as_dict(self.seen(), run(self, arguments.inputs)));
          },
          nb::arg("output_names").none(), nb::arg("input_feed"),
          nb::sig("def run(self, output_names: collections.abc.Sequence[str] | None, "
                  "input_feed: collections.abc.Mapping[str, typing.Any]) -> list[typing.Any]"),
          "As ONNX Runtime has it: gives a list of the outputs named, or of all for None.")
      .def(
          "run_bound",
          [](PySession& self) {
            self.require_no_state("a run on what is bound");
            with_session(self, [](Session& session) { session.run(); });
          },
          "Runs on what is bound and gives nothing: outputs lie where bind_output put them. Allocates nothing.")
      .def(
          "run_async",
          [](nb::handle self, nb::handle inputs) {
            nb::cast<PySession&>(self).require_no_state("a run in the background");
            return run_async(self, Arguments(nb::cast<PySession&>(self).signature, inputs), true);
          },
          nb::arg("inputs"), nb::sig("def run_async(self, inputs: typing.Any) -> tenon._future.Future"),
          "The run of these inputs behind those put there before. Gives a concurrent.futures.Future of run()'s "
          "result,\n"
          "which `await` takes too. The arrays must not change until it is done.");
}

void bind_bindings(SessionClass& session) {
  session
      .def(
          "bind_input",
          [](PySession& self, nb::handle given, nb::handle value) {
            const std::string name = checked_name(given);
            const Tensor tensor = bindable(self, name, value, self.signature.input(name).dtype, false);
            self.get()->bind_input(name, tensor);
          },
          nb::arg("name").none(), nb::arg("value").none(),
          nb::sig("def bind_input(self, name: str, value: typing.Any) -> None"),
          "What runs read as that input, from where it lies; None unbinds.")
      .def(
          "bind_output",
          [](PySession& self, nb::handle given, nb::handle value) {
            const std::string name = checked_name(given);
            self.get()->bind_output(name, bindable(self, name, value, DType::undefined, true));
          },
          nb::arg("name").none(), nb::arg("value").none(),
          nb::sig("def bind_output(self, name: str, value: typing.Any) -> None"),
          "Where runs leave that output: a dense array of its type and sizes. None unbinds.")
      .def(
          "enqueue",
          [](PySession& self, nb::handle inputs, nb::handle outputs, uintptr_t stream) {
            self.require_no_state("a run on a stream");
            Held held;
            const auto in = tensors_of(held, inputs, self.signature.inputs, false);
            const auto out = tensors_of(held, outputs, self.signature.outputs, true);
            with_session(self, [&](Session& session) { session.enqueue(in, out, reinterpret_cast<void*>(stream)); });
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("stream"),
          "On a GPU: puts a run on a CUDA stream (its address) and returns. Tensors in the engine's order, dense and "
          "on\n"
          "that GPU, of the sizes of the last run; None stands for the session's own memory.")
      .def(
          "input", &own_input, nb::arg("index"), nb::sig("def input(self, index: int) -> typing.Any"),
          "The session's own memory of an input, page-locked on a GPU: a run that is given this array copies nothing.\n"
          "The memory lives as long as the array.")
      .def(
          "device_input", [](PySession& self, size_t at) { return self.get()->device_input(at); }, nb::arg("index"),
          nb::keep_alive<0, 1>(), "The session's own memory of an input on the GPU.")
      .def(
          "device_output", [](PySession& self, size_t at) { return self.get()->device_output(at); }, nb::arg("index"),
          nb::keep_alive<0, 1>(), "The session's own memory of an output on the GPU.");
}

void bind_measures(SessionClass& session) {
  session
      .def(
          "profile",
          [](PySession& self, nb::handle inputs, nb::handle given) {
            const auto iterations = nb::cast<int>(checked("whole", "iterations", given, 1));
            const Arguments arguments(self.signature, inputs);
            std::vector<Tensor> values;
            for (const TensorInfo& info : self.signature.inputs) {
              const auto found = arguments.inputs.find(info.name);
              if (found == arguments.inputs.end())
                throw Error(Code::usage, "the input has no value", {.where = info.name});
              values.push_back(found->second);
            }
            return with_session(self, [&](Session& session) {
              session.run(arguments.inputs);
              return session.profile(values, iterations);
            });
          },
          nb::arg("inputs"), nb::arg("iterations").none() = 10,
          nb::sig("def profile(self, inputs: collections.abc.Mapping[str, typing.Any], iterations: int = 10) -> "
                  "list[LayerTime]"),
          "Mean time of each step over some runs, in microseconds.")
      .def(
          "device_times",
          [](PySession& self, int iterations) {
            return with_session(self, [&](Session& session) { return session.device_times(iterations); });
          },
          nb::arg("iterations"), "Milliseconds of runs on the GPU without copies; empty on the CPU.")
      .def(
          "memory",
          [](PySession& self) {
            const MemoryUse use = self.get()->memory();
            nb::dict dict;
            dict["arena_bytes"] = use.arena_bytes;
            dict["weights_bytes"] = use.weights_bytes;
            dict["input_bytes"] = use.input_bytes;
            dict["workspace_bytes"] = use.workspace_bytes;
            dict["device_bytes"] = use.device_bytes;
            return dict;
          },
          nb::sig("def memory(self) -> dict[str, int]"), "Bytes that the session takes, known before its first run.")
      .def_prop_ro(
          "threads", [](PySession& self) { return self.get()->threads(); }, "Threads of a run.")
      .def_prop_rw(
          "state", &PySession::state, [](PySession& self, nb::handle state) { self.use(state); },
          nb::for_getter(nb::sig("def state(self) -> State | None")),
          nb::for_setter(nb::sig("def state(self, state: State | None, /) -> None")), nb::arg("state").none(),
          "The State that runs read and leave, or None: then what is carried are inputs and outputs like others.")
      .def("close", &PySession::close, "Frees its memory; it cannot run afterwards.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Session"))
      .def(
          "__exit__", [](PySession& self, const nb::args&) { self.close(); },
          nb::sig("def __exit__(self, *what: object) -> None"));
}

}  // namespace

void bind_sessions(nb::module_& module) {
  bind_layer_times(module);
  SessionClass session(module, "Session",
                       "A running engine, for one thread at a time. Made by Engine.session(); as a context manager it "
                       "frees its memory at the end.");
  bind_runs(session);
  bind_bindings(session);
  bind_measures(session);
}

}  // namespace tenon::python
