// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "engine/format.h"
#include "session.h"

namespace tenon::python {

PyEngine::PyEngine(Engine engine, std::string file)
    : signature(std::make_unique<Signature>(engine)), path(std::move(file)), engine_(std::move(engine)) {}

PyEngine::~PyEngine() {
  const nb::gil_scoped_release free;
  pool_.reset();
  engine_.reset();
}

const Engine& PyEngine::get() const {
  if (!engine_) throw Error(Code::usage, "the engine is closed", {.hint = "load it again"});
  return *engine_;
}

std::shared_ptr<Pool> PyEngine::pool() const {
  if (!pool_) pool_ = std::make_shared<Pool>(get(), 0);
  return pool_;
}

void PyEngine::close() {
  std::shared_ptr<Pool> pool = std::move(pool_);
  const std::optional<Engine> engine = std::exchange(engine_, std::nullopt);
  const nb::gil_scoped_release free;
  pool.reset();
}

namespace {

/// A run on a session of the engine's pool.
std::vector<Tensor> run(const PyEngine& self, const std::map<std::string, Tensor>& inputs) {
  std::shared_ptr<Pool> shared = self.pool();
  const nb::gil_scoped_release free;
  // Another thread may close the engine meanwhile: the last to hold the pool ends it, without the GIL.
  const std::shared_ptr<Pool> pool = std::move(shared);
  std::unique_ptr<Session> session = pool->take();
  struct Back {
    Pool& pool;
    std::unique_ptr<Session>& session;
    ~Back() { pool.give(std::move(session)); }
  } const back{*pool, session};
  return session->run(inputs);
}

nb::bytes serialized(const PyEngine& self) {
  Buffer bytes;
  {
    const nb::gil_scoped_release free;
    bytes = self.get().serialize();
  }
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

PyEngine* load_path(const std::string& path, std::optional<Limits> limits) {
  const Logger logger = python_logger();
  std::optional<Engine> engine;
  {
    const nb::gil_scoped_release free;
    engine = Engine::load(path, {.logger = logger, .limits = limits});
  }
  return new PyEngine(std::move(*engine), path);
}

/// From anything with Python's buffer protocol; its bytes are copied.
PyEngine* load_bytes(nb::handle object, std::optional<Limits> limits) {
  const Logger logger = python_logger();
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  struct Release {
    Py_buffer& view;
    ~Release() { PyBuffer_Release(&view); }
  } const release{view};
  const std::span bytes(static_cast<const std::byte*>(view.buf), static_cast<size_t>(view.len));
  std::optional<Engine> engine;
  {
    const nb::gil_scoped_release free;
    engine = Engine::load(bytes, {.logger = logger, .limits = limits});
  }
  return new PyEngine(std::move(*engine), "");
}

void bind_info(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo", "Name, element type and sizes of an input or output.")
      .def_ro("name", &TensorInfo::name, "The ONNX name.")
      .def_prop_ro(
          "dtype", [](const TensorInfo& self) { return dtype_name(self.dtype); },
          "Such as \"float32\", by NumPy's and PyTorch's names.")
      .def_prop_ro(
          "shape", [](const TensorInfo& self) { return nb::tuple(nb::cast(self.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Sizes, outermost first; -1 may change from run to run.")
      .def("__repr__", [](const TensorInfo& self) {
        std::string sizes;
        for (const int64_t size : self.shape)
          sizes += (sizes.empty() ? "" : "x") + (size < 0 ? "?" : std::to_string(size));
        return "TensorInfo(" + self.name + ", " + dtype_name(self.dtype) + ", " + (sizes.empty() ? "scalar" : sizes) +
               ")";
      });
  nb::class_<Limits>(module, "Limits", "What models may take; 0 where there is no limit.")
      .def(nb::init<>())
      .def_rw("memory_bytes", &Limits::memory_bytes, "Bytes of tensors and arenas held together.")
      .def_rw("loop_rounds", &Limits::loop_rounds, "Rounds of one Loop or Scan.")
      .def_rw("workspace_bytes", &Limits::workspace_bytes, "Bytes that a GPU kernel may take beside its operands.");
  module.def("limits", &limits, "The limits of the process.");
  module.def("set_limits", &set_limits, nb::arg("limits"), "Sets the limits of the process.");
}

using EngineClass = nb::class_<PyEngine>;

void bind_facts(EngineClass& engine) {
  engine
      .def_prop_ro(
          "inputs", [](const PyEngine& self) { return self.signature->inputs; }, "TensorInfo of each input.")
      .def_prop_ro(
          "outputs", [](const PyEngine& self) { return self.signature->outputs; }, "TensorInfo of each output.")
      .def_prop_ro(
          "metadata", [](const PyEngine& self) { return self.get().metadata(); }, "The model's metadata_props.")
      .def_prop_ro(
          "device", [](const PyEngine& self) { return self.get().device().str(); }, "\"cpu\" or \"cuda:N\".")
      .def_prop_ro(
          "precision", [](const PyEngine& self) { return std::string(name(self.get().precision())); },
          "The arithmetic it was built for: \"fp32\", \"fp16\", \"int8\", …")
      .def_prop_ro(
          "path", [](const PyEngine& self) { return self.path; }, "Its file; \"\" where it has none yet.")
      .def_prop_ro(
          "profiles", [](const PyEngine& self) { return self.get().profiles(); },
          "The Profiles that it was built for; none: any sizes run. Sizes outside all of them raise Error(usage).")
      .def_prop_ro(
          "carried", [](const PyEngine& self) { return self.get().carried(); },
          "(output, input) of each value that runs carry from one to the next.")
      .def(
          "state",
          [](const PyEngine& self, nb::handle given) {
            const auto sizes = nb::cast<Shapes>(checked("shapes", "sizes", given));
            return new PyState(self.get().state(sizes), self.get());
          },
          nb::arg("sizes").none() = nb::dict(),
          nb::sig("def state(self, sizes: collections.abc.Mapping[str, collections.abc.Sequence[int]] = {}) -> State"),
          "What a first run takes as carried: zeros. Sizes that the model leaves open are those of the same name among "
          "the\n"
          "other inputs of the first run, or else 0; `sizes` says otherwise, by input. For session(state=…).");
}

void bind_runs(EngineClass& engine) {
  engine
      .def(
          "__call__",
          [](const PyEngine& self, const nb::args& values, const nb::kwargs& named) {
            const Arguments arguments(*self.signature, values, named);
            return as_value(run(self, arguments.inputs));
          },
          nb::sig("def __call__(self, *inputs: typing.Any, **named: typing.Any) -> typing.Any"),
          "Runs on inputs in the model's order or by name, from any thread. Gives the output as an array, or a tuple "
          "of\n"
          "several.")
      .def(
          "run",
          [](const PyEngine& self, nb::handle inputs) {
            const Arguments arguments(*self.signature, inputs);
            return as_dict(*self.signature, run(self, arguments.inputs));
          },
          nb::arg("inputs").none(), nb::sig("def run(self, inputs: typing.Any) -> dict[str, typing.Any]"),
          "Runs on a dict of arrays by input name, an array, or a list of arrays in the inputs' order, from any "
          "thread;\n"
          "gives a dict of arrays by output name.")
      .def(
          "run",
          [](const PyEngine& self, nb::handle names, nb::handle feed) {
            const Arguments arguments(*self.signature, feed);
            return in_order(names, as_dict(*self.signature, run(self, arguments.inputs)));
          },
          nb::arg("output_names").none(), nb::arg("input_feed"),
          nb::sig("def run(self, output_names: collections.abc.Sequence[str] | None, "
                  "input_feed: collections.abc.Mapping[str, typing.Any]) -> list[typing.Any]"),
          "As ONNX Runtime has it: gives a list of the outputs named, or of all for None.")
      .def(
          "session",
          [](const PyEngine& self, nb::handle given_threads, nb::handle given_shapes, nb::handle given_device,
             nb::handle given_profile, nb::handle state) {
            const nb::object four = checked("of_session", given_threads, given_shapes, given_device, given_profile);
            const auto threads = nb::cast<int>(four[0]);
            const auto shapes = nb::cast<Shapes>(four[1]);
            const auto device = nb::cast<std::string>(four[2]);
            const auto profile = nb::cast<std::optional<std::string>>(four[3]);
            if (profile && !shapes.empty())
              throw Error(Code::usage, "a session is for a profile or for shapes, not both");
            const SessionOptions options{threads, shapes, profile};
            if (device.empty() || Device(device) == self.get().device())
              return new PySession(self.get(), options, state);
            return new PySession(self.get().on(Device(device)), options, state);
          },
          nb::kw_only(), nb::arg("threads") = 0, nb::arg("shapes").none() = nb::none(), nb::arg("device") = "",
          nb::arg("profile").none() = nb::none(), nb::arg("state").none() = nb::none(),
          nb::sig("def session(self, *, threads: int = 0, shapes: collections.abc.Mapping[str, "
                  "collections.abc.Sequence[int]] | None = None, device: str = \"\", profile: str | None = None, "
                  "state: State | None = None) -> Session"),
          "A session of its own, for one thread at a time. `shapes` are the sizes that it is made for, by input; "
          "`threads`\n"
          "0 is as many as the engine was built for; `device` another device than the engine's; `profile` the name of\n"
          "the profile whose sizes alone it takes; `state` what its runs carry from one to the next: then inputs and\n"
          "outputs are those that are not carried.");
}

void bind_files(EngineClass& engine) {
  engine
      .def(
          "on",
          [](const PyEngine& self, nb::handle given) {
            const auto device = nb::cast<std::string>(checked("device", given));
            const nb::gil_scoped_release free;
            return new PyEngine(self.get().on(Device(device)), "");
          },
          nb::arg("device").none(), nb::sig("def on(self, device: str) -> Engine"),
          "The same engine on another device.")
      .def(
          "save",
          [](PyEngine& self, nb::handle given, bool overwrite) {
            const auto path =
                nb::cast<std::string>(nb::module_::import_("tenon._kinds").attr("engine_target")(given, overwrite));
            {
              const nb::gil_scoped_release free;
              self.get().save(path);
            }
            self.path = path;
          },
          nb::arg("path").none(), nb::kw_only(), nb::arg("overwrite") = false,
          nb::sig("def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None"),
          "Writes the engine's file, whole or not at all. A file that holds no engine is replaced with `overwrite` "
          "alone.")
      .def("serialize", &serialized, "The bytes that save() writes.");
}

void bind_reports(EngineClass& engine) {
  engine
      .def(
          "inspect", [](nb::handle self) { return nb::module_::import_("tenon._explain").attr("inspect")(self); },
          nb::sig("def inspect(self) -> dict[str, typing.Any]"),
          "What the engine is: device, precision, inputs, outputs, metadata, sizes, and its steps with their kernels "
          "and\n"
          "the times of the build, in microseconds.")
      .def(
          "why",
          [](nb::handle self, nb::handle node, nb::handle measure, nb::handle threads, nb::handle iterations) {
            return nb::module_::import_("tenon._explain").attr("why")(self, node, measure, threads, iterations);
          },
          nb::arg("node").none() = "", nb::kw_only(), nb::arg("measure").none() = true, nb::arg("threads").none() = 0,
          nb::arg("iterations").none() = 10,
          nb::sig("def why(self, node: str = \"\", *, measure: bool = True, threads: int = 0, iterations: int = 10) -> "
                  "tenon._explain.Why"),
          "Why each step runs as it does: kernel, time, the candidates with their times or why they refuse, and what "
          "to\n"
          "do. A dict that prints as text; with `node` the text is of this ONNX node alone. Without `measure` nothing "
          "runs\n"
          "and times are those of the build.")
      .def(
          "__reduce__", [](nb::handle self) { return nb::module_::import_("tenon._explain").attr("reduce")(self); },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"), "An engine is pickled as the path of its file.")
      .def(
          "_repr_html_", [](nb::handle self) { return nb::module_::import_("tenon._explain").attr("as_html")(self); },
          nb::sig("def _repr_html_(self) -> str"))
      .def("__repr__",
           [](const PyEngine& self) {
             return "tenon.Engine(" + self.get().device().str() + ", " + std::string(name(self.get().precision())) +
                    (self.path.empty() ? ")" : ", " + self.path + ")");
           })
      .def("close", &PyEngine::close, "Frees its memory; sessions made before go on.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Engine"))
      .def(
          "__exit__", [](PyEngine& self, const nb::args&) { self.close(); },
          nb::sig("def __exit__(self, *what: object) -> None"));
}

}  // namespace

void bind_engines(nb::module_& module) {
  bind_info(module);
  EngineClass engine(module, "Engine", nb::dynamic_attr(),
                     "A built model: immutable, shared freely between threads. Calling it runs it on an idle session\n"
                     "of its own. As a context manager it frees its memory at the end.");
  bind_facts(engine);
  bind_runs(engine);
  bind_files(engine);
  bind_reports(engine);
  module.attr("engine_magic") = nb::bytes(engine::magic, sizeof engine::magic);
  module.def("load_path", &load_path, nb::arg("path"), nb::arg("limits") = nb::none(),
             nb::sig("def load_path(path: str, limits: Limits | None = None) -> Engine"));
  module.def("load_bytes", &load_bytes, nb::arg("data"), nb::arg("limits") = nb::none(),
             nb::sig("def load_bytes(data: typing.Any, limits: Limits | None = None) -> Engine"));
}

}  // namespace tenon::python
