// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "session.h"

namespace tenon::python {

Logger python_logger() {
  const nb::module_ logging = nb::module_::import_("tenon._logging");
  const int least = nb::cast<int>(logging.attr("least")());
  if (least < 0) return {};
  return Logger(
      [](Severity severity, std::string_view text) {
        if (!Py_IsInitialized()) return;
        const nb::gil_scoped_acquire hold;
        try {
          nb::module_::import_("tenon._logging")
              .attr("emit")(static_cast<int>(severity), nb::str(text.data(), text.size()));
        } catch (nb::python_error& fault) {
          fault.discard_as_unraisable("tenon: a log message");
        }
      },
      static_cast<Severity>(least));
}

namespace {

/// The first exception of the caller's Python functions that a build calls; raised when the build has ended.
class Raised {
 public:
  void keep(nb::python_error& error) {
    if (!type_) {
      error.restore();
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      type_ = nb::steal(type), value_ = nb::steal(value), trace_ = nb::steal(trace);
    }
  }
  bool any() const { return type_.is_valid(); }
  [[noreturn]] void raise() {
    PyErr_Restore(type_.release().ptr(), value_.release().ptr(), trace_.release().ptr());
    throw nb::python_error();
  }

 private:
  nb::object type_, value_, trace_;
};

/// A Calibrator of Python: next_batch gives a dict of arrays, or None; the rest as in tenon.Calibrator.
class PyCalibrator : public Calibrator {
 public:
  PyCalibrator(nb::object object, std::map<std::string, DType> types, std::shared_ptr<Raised> raised)
      : object_(std::move(object)), types_(std::move(types)), raised_(std::move(raised)) {}
  ~PyCalibrator() override {
    const nb::gil_scoped_acquire hold;
    object_.reset();
  }
  int64_t samples() const override {
    return call<int64_t>([&] { return nb::cast<int64_t>(object_.attr("samples")()); });
  }
  bool next_batch(CalibrationBatch& batch) override {
    return call<bool>([&] {
      const nb::object given = object_.attr("next_batch")();
      if (given.is_none()) return false;
      Held held;
      batch.inputs.clear();
      batch.names.clear();
      for (const auto& [key, value] : nb::cast<nb::dict>(given)) {
        const auto name = nb::cast<std::string>(key);
        const auto type = types_.find(name);
        const Tensor tensor = held.tensor(value, type == types_.end() ? DType::f32 : type->second, name);
        // The caller may fill the same memory with the next batch.
        batch.inputs[name] = tensor.copy();
      }
      for (nb::handle name : object_.attr("names")()) batch.names.push_back(nb::cast<std::string>(name));
      return true;
    });
  }
  std::string preprocessing() const override {
    return call<std::string>([&] { return nb::cast<std::string>(object_.attr("preprocessing")()); });
  }
  std::string read_cache() override {
    return call<std::string>([&] {
      const nb::object cache = object_.attr("read_calibration_cache")();
      if (cache.is_none()) return std::string();
      const auto bytes = nb::cast<nb::bytes>(nb::module_::import_("builtins").attr("bytes")(cache));
      return std::string(bytes.c_str(), bytes.size());
    });
  }
  void write_cache(const std::string& text) override {
    call<bool>([&] {
      object_.attr("write_calibration_cache")(nb::bytes(text.data(), text.size()));
      return true;
    });
  }

 private:
  template <class T, class Work>
  T call(const Work& work) const {
    const nb::gil_scoped_acquire hold;
    try {
      return work();
    } catch (nb::python_error& error) {
      raised_->keep(error);
      throw Error(Code::usage, "the calibrator failed");
    }
  }
  nb::object object_;
  std::map<std::string, DType> types_;
  std::shared_ptr<Raised> raised_;
};

/// A function of an engine that gives points.
class PyJudge : public Judge {
 public:
  PyJudge(nb::object object, std::shared_ptr<Raised> raised) : object_(std::move(object)), raised_(std::move(raised)) {}
  ~PyJudge() override {
    const nb::gil_scoped_acquire hold;
    object_.reset();
  }
  double reference(const Engine& engine) override { return reference_ = points(engine); }
  Score score(const Engine& engine) override {
    const double value = points(engine), drop = reference_ - value;
    return {.value = value, .drop = drop, .low = drop, .high = drop};
  }
  std::string metric() const override {
    const nb::gil_scoped_acquire hold;
    return nb::hasattr(object_, "__name__") ? nb::cast<std::string>(object_.attr("__name__")) : "points";
  }
  int64_t samples() const override {
    const nb::gil_scoped_acquire hold;
    return nb::hasattr(object_, "samples") ? nb::cast<int64_t>(object_.attr("samples")) : 0;
  }

 private:
  double points(const Engine& engine) const {
    const nb::gil_scoped_acquire hold;
    try {
      return nb::cast<double>(nb::float_(object_(nb::cast(new PyEngine(engine, ""), nb::rv_policy::take_ownership))));
    } catch (nb::python_error& error) {
      raised_->keep(error);
      throw Error(Code::usage, "the accuracy function failed");
    }
  }
  nb::object object_;
  std::shared_ptr<Raised> raised_;
  double reference_ = 0;
};

std::map<std::string, DType> types_of(const std::vector<TensorInfo>& infos) {
  std::map<std::string, DType> types;
  for (const TensorInfo& info : infos) types[info.name] = info.dtype;
  if (infos.size() == 1) types[""] = infos[0].dtype;
  return types;
}

template <class T>
void take(const nb::dict& given, const char* name, T& to) {
  if (!given.contains(name) || given[name].is_none()) return;
  try {
    to = nb::cast<T>(given[name]);
  } catch (const std::bad_cast&) {
    nb::module_::import_("tenon._arguments").attr("refuse")(name, given[name], "a value of another type");
  }
}

template <class T>
T chosen(const std::string& word, const char* what, const std::map<std::string, T>& from) {
  const auto found = from.find(word);
  if (found != from.end()) return found->second;
  std::string list;
  for (const auto& [name, value] : from) list += (list.empty() ? "" : ", ") + name;
  throw Error(Code::usage, std::string("no ") + what + " is called \"" + word + "\"", {.hint = "give one of " + list});
}

Precision precision_of(const std::string& name) {
  const auto precision = precision_named(name);
  if (precision) return *precision;
  throw Error(Code::usage, "no precision is called \"" + name + "\"",
              {.hint = "give fp32, tf32, fp16, bf16, int8, fp8 or best"});
}

void take_calibration(const nb::dict& given, const std::vector<TensorInfo>& inputs, BuildOptions& options,
                      const std::shared_ptr<Raised>& raised) {
  if (given.contains("calibrator") && !given["calibrator"].is_none())
    options.calibrator = std::make_shared<PyCalibrator>(nb::borrow(given["calibrator"]), types_of(inputs), raised);
  CalibrationOptions& how = options.calibration;
  std::string method = "auto";
  take(given, "method", method);
  const auto named = calibration_method_named(method);
  if (!named)
    throw Error(Code::usage, "no method of calibration is called \"" + method + "\"",
                {.where = "method", .hint = std::string("give ") + calibration_method_names});
  how.method = *named;
  take(given, "percentile", how.percentile);
  take(given, "calibration_batch", how.batch);
  take(given, "calibration_count", how.count);
  take(given, "max_error", how.target_error);
  take(given, "reconstruct", how.reconstruct);
  take(given, "keep", how.keep);
}

BuildOptions options_of(const nb::dict& given, const std::vector<TensorInfo>& inputs,
                        const std::shared_ptr<Raised>& raised) {
  BuildOptions options;
  std::string device = "cpu", precision = "fp32", objective = "latency", weights = "given";
  take(given, "device", device);
  take(given, "precision", precision);
  take(given, "objective", objective);
  take(given, "weights", weights);
  take(given, "weight_block", options.weight_block);
  options.device = Device(device);
  options.precision = precision_of(precision);
  options.objective =
      chosen<Objective>(objective, "objective", {{"latency", Objective::latency}, {"size", Objective::size}});
  options.weights = chosen<Weights>(weights, "weights",
                                    {{"given", Weights::given}, {"int8", Weights::int8}, {"int4", Weights::int4}});
  take(given, "shapes", options.shapes);
  take(given, "profiles", options.profiles);
  take(given, "state", options.state);
  take(given, "threads", options.threads);
  take(given, "budget", options.budget_seconds);
  take(given, "timing_cache", options.timing_cache);
  take(given, "skip_passes", options.skip_passes);
  take(given, "external_root", options.external_root);
  take(given, "lenient", options.lenient);
  take(given, "metadata", options.metadata);
  take(given, "strict", options.strict);
  take(given, "vendor", options.vendor);
  take_calibration(given, inputs, options, raised);
  if (given.contains("accuracy") && !given["accuracy"].is_none())
    options.judge = std::make_shared<PyJudge>(nb::borrow(given["accuracy"]), raised);
  if (given.contains("max_drop") && !given["max_drop"].is_none()) take(given, "max_drop", options.max_drop.emplace());
  Limits limits;
  take(given, "workspace", limits.workspace_bytes);
  take(given, "max_memory", limits.memory_bytes);
  if (limits.workspace_bytes > 0 || limits.memory_bytes > 0) options.limits = limits;
  options.logger = python_logger();
  return options;
}

/// Tells the caller's function how far it is, and lets Ctrl-C end the build.
Progress progress_of(nb::handle function, const std::shared_ptr<Raised>& raised) {
  return [function, raised](const std::string& stage, double done, double seconds_left) {
    const nb::gil_scoped_acquire hold;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (function.is_none()) return true;
      const nb::object answer = function(stage, done, seconds_left);
      return answer.is_none() || nb::cast<bool>(nb::bool_(answer));
    } catch (nb::python_error& error) {
      raised->keep(error);
      return false;
    }
  };
}

template <class Make>
PyEngine* made(const nb::dict& given, const std::vector<TensorInfo>& inputs, const Make& make) {
  const auto raised = std::make_shared<Raised>();
  BuildOptions options = options_of(given, inputs, raised);
  const nb::object progress = given.contains("progress") ? nb::borrow(given["progress"]) : nb::borrow(nb::none());
  options.progress = progress_of(progress, raised);
  std::optional<Engine> engine;
  try {
    const nb::gil_scoped_release free;
    engine = make(options);
  } catch (const Error&) {
    if (raised->any()) raised->raise();
    throw;
  }
  if (raised->any()) raised->raise();
  return new PyEngine(std::move(*engine), "");
}

PyEngine* build_model(nb::handle model, const nb::dict& given) {
  std::string external_root;
  bool lenient = false;
  take(given, "external_root", external_root);
  take(given, "lenient", lenient);
  const bool needs_types = given.contains("calibrator") && !given["calibrator"].is_none();
  const auto inputs = needs_types ? stated_inputs(model, external_root, lenient) : std::vector<TensorInfo>();
  if (nb::isinstance<nb::str>(model)) {
    const auto path = nb::cast<std::string>(model);
    return made(given, inputs, [&](const BuildOptions& options) { return build(path, options); });
  }
  const auto bytes = nb::cast<nb::bytes>(model);
  const std::span view(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  return made(given, inputs, [&](const BuildOptions& options) { return build(view, options); });
}

PyEngine* retune_engine(const PyEngine& engine, const nb::dict& given) {
  return made(given, {}, [&](const BuildOptions& options) { return retune(engine.get(), options); });
}

}  // namespace

void bind_build(nb::module_& module) {
  module.def("build", &build_model, nb::arg("model"), nb::arg("options"),
             nb::sig("def build(model: str | bytes, options: dict[str, typing.Any]) -> Engine"));
  module.def("retune", &retune_engine, nb::arg("engine"), nb::arg("options"),
             nb::sig("def retune(engine: Engine, options: dict[str, typing.Any]) -> Engine"));
  module.def(
      "load_plugin", [](nb::handle given) { load_plugin(nb::cast<std::string>(checked("path", "path", given))); },
      nb::arg("path").none(), nb::sig("def load_plugin(path: str | os.PathLike[str]) -> None"),
      "Loads a plugin with custom ops, for the process, before models that use them are built.");
}

}  // namespace tenon::python
