// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "session.h"

namespace tenon::python {
namespace {

void bind_profiles(nb::module_& module) {
  nb::class_<Profile>(module, "Profile",
                      "Sizes that an engine is for, by input: any from `min` to `max`, with kernels measured at `opt`.")
      .def(
          "__init__",
          [](Profile* self, nb::handle best, nb::handle least, nb::handle most, nb::handle given_name) {
            const nb::object four = checked("of_profile", best, least, most, given_name);
            auto opt = nb::cast<Shapes>(four[0]), min = nb::cast<Shapes>(four[1]), max = nb::cast<Shapes>(four[2]);
            auto name = nb::cast<std::string>(four[3]);
            // An input without a least or most has the best size alone.
            for (const auto& [input, sizes] : opt) min.try_emplace(input, sizes), max.try_emplace(input, sizes);
            new (self) Profile{std::move(name), std::move(min), std::move(opt), std::move(max)};
          },
          nb::arg("opt").none(), nb::arg("min").none() = nb::dict(), nb::arg("max").none() = nb::dict(),
          nb::arg("name").none() = "",
          nb::sig("def __init__(self, opt: collections.abc.Mapping[str, collections.abc.Sequence[int]], "
                  "min: collections.abc.Mapping[str, collections.abc.Sequence[int]] = {}, "
                  "max: collections.abc.Mapping[str, collections.abc.Sequence[int]] = {}, name: str = \"\") -> None"))
      .def_ro("name", &Profile::name, "Its name, for Engine.session(profile=…).")
      .def_ro("min", &Profile::min, "The least sizes, by input.")
      .def_ro("opt", &Profile::opt, "The sizes that kernels are chosen for, by input.")
      .def_ro("max", &Profile::max, "The largest sizes, by input.")
      .def("__repr__", [](const Profile& self) {
        std::string text = "tenon.Profile(" + self.name;
        const auto of = [](const Shapes& shapes, const std::string& input) {
          const auto found = shapes.find(input);
          return found == shapes.end() ? std::string("?") : Dims(std::span<const int64_t>(found->second)).str();
        };
        for (const auto& [input, sizes] : self.opt)
          text += (text.back() == '(' ? "" : ", ") + input + " " + of(self.min, input) + ".." + of(self.opt, input) +
                  ".." + of(self.max, input);
        return text + ")";
      });
}

/// The type of a carried input. Throws Error(usage) for another.
DType type_of(PyState& self, const std::string& input) {
  for (const TensorInfo& info : self.engine().inputs())
    if (info.name == input) return info.dtype;
  return DType::undefined;
}

}  // namespace

void bind_states(nb::module_& module) {
  bind_profiles(module);
  nb::class_<PyState>(module, "State",
                      "What runs of an engine carry from one to the next: caches of attention, states of recurrent "
                      "layers.\n"
                      "Made by Engine.state(); for one run at a time.")
      .def(
          "reset", [](PyState& self) { self.with([](State& state) { state.reset(); }); },
          "Lets it be as Engine.state() gave it.")
      .def(
          "fork",
          [](PyState& self) {
            return new PyState(self.with([](State& state) { return state.fork(); }), self.engine());
          },
          nb::sig("def fork(self) -> State"), "Another of the same content, which goes its own way.")
      .def(
          "get",
          [](PyState& self, nb::handle given) {
            const std::string input = checked_name(given);
            const Tensor tensor = self.with([&](State& state) {
              const Tensor value = state.get(input);
              return value ? value.copy() : Tensor();
            });
            return tensor ? to_python(tensor) : nb::none();
          },
          nb::arg("input").none(), nb::sig("def get(self, input: str) -> typing.Any"),
          "A copy of what the next run will take as that input; None before the first run, where its sizes are not\n"
          "known yet. Raises Error(usage) for an input that is not carried.")
      .def(
          "set",
          [](PyState& self, nb::handle given, nb::handle value) {
            const std::string input = checked_name(given);
            Held held;
            const Tensor tensor = held.tensor(value, type_of(self, input), input);
            self.with([&](State& state) { state.set(input, tensor); });
          },
          nb::arg("input").none(), nb::arg("value"), nb::sig("def set(self, input: str, value: typing.Any) -> None"),
          "Lets the next run take a copy of this. Raises Error(usage) for an input that is not carried, or another "
          "type.");
}

}  // namespace tenon::python
