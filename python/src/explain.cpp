// SPDX-License-Identifier: Apache-2.0
#include "explain/report.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "backends/backend.h"
#include "base/nearest.h"
#include "engine/engine.h"
#include "ops/op.h"
#include "session.h"

namespace tenon::python {
namespace {

using Json = nlohmann::ordered_json;

nb::object parsed(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return nb::module_::import_("json").attr("loads")(nb::str(text.c_str(), text.size()));
}

/// The report of `tenon why`: as data and as text. `layers` is a session's profile, empty for the build's own times.
nb::tuple why(const PyEngine& self, const std::vector<LayerTime>& layers, int threads, const std::string& node) {
  Json json;
  std::string text;
  {
    const nb::gil_scoped_release free;
    const plan::Plan& plan = plan_of(self.get());
    const explain::Report report = explain::explain(plan, layers, threads > 0 ? threads : plan.threads);
    json = explain::json(report);
    text = explain::text(report, node, nearest, true);
  }
  return nb::make_tuple(parsed(json), nb::str(text.c_str(), text.size()));
}

nb::tuple audit(const PyEngine& self) {
  const plan::Evidence& evidence = plan_of(self.get()).evidence;
  if (evidence.empty())
    throw Error(Code::usage, "the engine holds no calibration to audit", {.hint = "build it in int8 with data"});
  const std::string text = explain::audit_text(evidence);
  return nb::make_tuple(parsed(explain::audit_json(evidence)), nb::str(text.c_str(), text.size()));
}

/// The sizes it was tuned for, by input.
nb::dict tuned_shapes(const PyEngine& self) {
  nb::dict dict;
  for (const auto& [name, sizes] : plan_of(self.get()).shapes) dict[name.c_str()] = nb::tuple(nb::cast(sizes));
  return dict;
}

/// What the machine has: as `tenon devices --json`.
nb::object devices() {
  Json facts = Json::object();
  std::string text;
  {
    const nb::gil_scoped_release free;
    for (const backends::Backend* backend : backends::backends()) text += backend->device_query(facts);
  }
  return parsed(facts);
}

/// Every operator that models may use: from the registries.
nb::list operators() {
  nb::list list;
  for (const ops::OpDef* op : ops::all()) {
    if (op->id.is_internal()) continue;
    nb::list attributes;
    nb::dict kernels;
    for (const auto& attribute : op->attributes)
      if (!attribute.is_internal) attributes.append(nb::str(attribute.name.c_str()));
    for (const backends::Backend* backend : backends::backends())
      kernels[backend->name().c_str()] = nb::cast(backend->kernels(op->id.str()));
    nb::dict entry;
    entry["name"] = nb::str(op->id.str().c_str());
    entry["attributes"] = attributes;
    entry["half"] = op->traits.has(ops::Trait::half);
    entry["int8"] = op->traits.has(ops::Trait::int8);
    entry["elementwise"] = op->traits.has(ops::Trait::elementwise);
    entry["kernels"] = kernels;
    list.append(entry);
  }
  return list;
}

}  // namespace

void bind_explain(nb::module_& module) {
  module.def("why", &why, nb::arg("engine"), nb::arg("layers"), nb::arg("threads"), nb::arg("node"),
             nb::sig("def why(engine: Engine, layers: list[LayerTime], threads: int, node: str) -> "
                     "tuple[dict[str, typing.Any], str]"));
  module.def("audit", &audit, nb::arg("engine"),
             nb::sig("def audit(engine: Engine) -> tuple[dict[str, typing.Any], str]"));
  module.def("tuned_shapes", &tuned_shapes, nb::arg("engine"),
             nb::sig("def tuned_shapes(engine: Engine) -> dict[str, tuple[int, ...]]"));
  module.def("operators", &operators, nb::sig("def operators() -> list[dict[str, typing.Any]]"));
  module.def("devices", &devices, nb::sig("def devices() -> dict[str, typing.Any]"),
             "What this machine has, and what of it is used.");
}

}  // namespace tenon::python
