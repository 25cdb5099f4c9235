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

namespace {

/// What is no dict as one: another mapping, an array, or arrays in the inputs' order.
nb::dict by_name(const Signature& signature, nb::handle values) {
  if (nb::isinstance<nb::dict>(values)) return nb::borrow<nb::dict>(values);
  nb::list names;
  for (const nb::object& name : signature.input_names) names.append(name);
  return nb::cast<nb::dict>(nb::module_::import_("tenon._arguments").attr("by_name")(values, names));
}

bool is_cast(DType from, DType to) {
  return (from == DType::f64 && to == DType::f32) || (from == DType::i64 && to == DType::i32) ||
         (from == DType::i32 && to == DType::i64);
}

}  // namespace

void Arguments::add(const TensorInfo& info, nb::handle value) {
  Tensor tensor = held.tensor(value, info.dtype, info.name);
  if (is_cast(tensor.dtype(), info.dtype) && tensor.on_cpu() && !nb::isinstance<Tensor>(value))
    tensor = held.tensor(
        nb::module_::import_("tenon._arguments").attr("cast_to_input")(value, dtype_name(info.dtype), info.name),
        info.dtype, info.name);
  inputs.emplace(info.name, std::move(tensor));
}

Arguments::Arguments(const Signature& signature, nb::handle values) { add_all(signature, values); }

void Arguments::add_all(const Signature& signature, nb::handle values) {
  for (const auto& [key, value] : by_name(signature, values)) {
    if (!nb::isinstance<nb::str>(key)) nb::module_::import_("tenon._arguments").attr("refuse_name")(key);
    add(signature.input(nb::cast<std::string>(key)), value);
  }
}

Arguments::Arguments(const Signature& signature, const nb::args& values, const nb::kwargs& named) {
  if (values.size() > signature.inputs.size())
    throw Error(Code::usage, "more values than inputs",
                {.why = std::to_string(values.size()) + " for " + std::to_string(signature.inputs.size())});
  const bool is_dict = values.size() == 1 && nb::isinstance<nb::dict>(values[0]);  // no array is: as run() takes it
  if (is_dict) add_all(signature, values[0]);
  for (size_t at = 0; !is_dict && at < values.size(); ++at) add(signature.inputs[at], values[at]);
  for (const auto& [key, value] : named) add(signature.input(nb::cast<std::string>(key)), value);
}

nb::dict as_dict(const Signature& signature, const std::vector<Tensor>& outputs) {
  nb::dict dict;
  for (size_t at = 0; at < outputs.size(); ++at) dict[signature.output_names[at]] = to_python(outputs[at]);
  return dict;
}

std::string checked_name(nb::handle given) {
  return nb::cast<std::string>(checked("text", "name", given, "the name of an input or output"));
}

nb::object in_order(nb::handle names, const nb::dict& outputs) {
  return nb::module_::import_("tenon._arguments").attr("in_order")(names, outputs);
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
