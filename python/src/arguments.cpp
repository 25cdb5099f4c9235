// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <nanobind/stl/string.h>

#include <new>
#include <utility>

namespace tenon::python {

Signature::Signature(const Engine& engine) : inputs(engine.inputs()), outputs(engine.outputs()) {
  for (const TensorInfo& info : inputs) input_names.push_back(nb::str(info.name.c_str()));
  for (const TensorInfo& info : outputs) output_names.push_back(nb::str(info.name.c_str()));
}

Signature Signature::without_carried(const Engine& engine) const {
  Signature open = *this;
  const auto remove = [](const std::string& name, std::vector<TensorInfo>& infos, std::vector<nb::object>& names) {
    for (size_t at = 0; at < infos.size(); ++at) {
      if (infos[at].name != name) continue;
      infos.erase(infos.begin() + static_cast<std::ptrdiff_t>(at));
      names.erase(names.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
  };
  for (const auto& [output, input] : engine.carried()) {
    remove(output, open.outputs, open.output_names);
    remove(input, open.inputs, open.input_names);
  }
  return open;
}

const TensorInfo& Signature::input(const std::string& name) const {
  for (const TensorInfo& info : inputs)
    if (info.name == name) return info;
  std::string list;
  for (const TensorInfo& info : inputs) list += (list.empty() ? "" : ", ") + info.name;
  throw Error(Code::usage, "the model has no input \"" + name + "\"", {.where = name, .hint = "its inputs: " + list});
}

Arguments::Arguments(const Signature& signature, nb::handle values) {
  for (const auto& [key, value] : nb::cast<nb::dict>(values)) {
    const auto name = nb::cast<std::string>(key);
    inputs.emplace(name, held.tensor(value, signature.input(name).dtype, name));
  }
}

Arguments::Arguments(const Signature& signature, const nb::args& values, const nb::kwargs& named) {
  if (values.size() > signature.inputs.size())
    throw Error(Code::usage, "more values than inputs",
                {.why = std::to_string(values.size()) + " for " + std::to_string(signature.inputs.size())});
  for (size_t at = 0; at < values.size(); ++at) {
    const TensorInfo& info = signature.inputs[at];
    inputs.emplace(info.name, held.tensor(values[at], info.dtype, info.name));
  }
  for (const auto& [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    inputs.emplace(name, held.tensor(value, signature.input(name).dtype, name));
  }
}

nb::dict as_dict(const Signature& signature, const std::vector<Tensor>& outputs) {
  nb::dict dict;
  for (size_t at = 0; at < outputs.size(); ++at) dict[signature.output_names[at]] = to_python(outputs[at]);
  return dict;
}

nb::object as_value(const std::vector<Tensor>& outputs) {
  if (outputs.size() == 1) return to_python(outputs[0]);
  nb::list list;
  for (const Tensor& output : outputs) list.append(to_python(output));
  return nb::tuple(list);
}

nb::object exception_of(const std::exception_ptr& error) {
  const nb::object make = nb::module_::import_("tenon._errors").attr("make");
  try {
    std::rethrow_exception(error);
  } catch (const Error& fault) {
    return make(static_cast<int>(fault.code()), fault.what(), fault.where(), fault.why(), fault.hint(), fault.node());
  } catch (const std::bad_alloc&) {
    return make(static_cast<int>(Code::resource), "not enough memory", "", "", "", "");
  } catch (const std::exception& fault) {
    return make(static_cast<int>(Code::internal), "a fault in Tenon", "", fault.what(), "", "");
  }
}

}  // namespace tenon::python
