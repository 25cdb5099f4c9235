// SPDX-License-Identifier: Apache-2.0
#include "ops/custom_op.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "backends/backend.h"
#include "session.h"

/// Custom ops whose functions are Python's: for trying out.
namespace tenon::python {
namespace {

/// Lives as long as the process, as the op does.
struct Functions {
  nb::object infer, compute;
};

/// A Python exception, as what a failed call says.
void tell(const tenon_op_api* api, const tenon_op_node* node, const std::string& why) { api->fail(node, why.c_str()); }

/// Calls Python and gives 0, or 1 once `api` knows why it failed.
template <class Work>
int call(const tenon_op_api* api, const tenon_op_node* node, const Work& work) {
  if (!Py_IsInitialized()) return 1;
  const nb::gil_scoped_acquire hold;
  try {
    work();
    return 0;
  } catch (nb::python_error& error) {
    const std::string kind = nb::cast<std::string>(error.type().attr("__name__"));
    tell(api, node, kind + ": " + nb::cast<std::string>(nb::str(error.value())));
  } catch (const Error& error) {
    tell(api, node, error.what() + (error.why().empty() ? "" : ": " + error.why()));
  } catch (const std::exception& error) {
    tell(api, node, error.what());
  }
  return 1;
}

nb::dict attributes_of(const tenon_op_node* node) {
  nb::dict dict;
  for (const auto& [name, value] : ops::node_of(node).attributes) {
    const nb::str key(name.c_str(), name.size());
    if (const auto* one = std::get_if<int64_t>(&value)) dict[key] = nb::int_(*one);
    else if (const auto* real = std::get_if<float>(&value)) dict[key] = nb::float_(*real);
    else if (const auto* text = std::get_if<std::string>(&value)) dict[key] = nb::str(text->c_str(), text->size());
    else if (const auto* ones = std::get_if<std::vector<int64_t>>(&value)) dict[key] = nb::cast(*ones);
    else if (const auto* reals = std::get_if<std::vector<float>>(&value)) dict[key] = nb::cast(*reals);
    else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) dict[key] = nb::cast(*texts);
    else if (const auto* tensor = std::get_if<Tensor>(&value)) dict[key] = to_python(tensor->copy());
  }
  return dict;
}

/// (dtype, sizes or None) of an operand, None for one that is absent; a size that is not known is -1.
nb::object as_python(const tenon_op_type& type) {
  if (type.dtype == TENON_UNDEFINED) return nb::none();
  nb::object sizes = nb::none();
  if (type.rank >= 0) sizes = nb::tuple(nb::cast(std::vector<int64_t>(type.dims, type.dims + type.rank)));
  return nb::make_tuple(dtype_name(static_cast<DType>(type.dtype)), sizes);
}

int infer(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_type* inputs,
          size_t input_count, tenon_op_type* outputs, size_t output_count) {
  return call(api, node, [&] {
    nb::list types;
    for (size_t at = 0; at < input_count; ++at) types.append(as_python(inputs[at]));
    const nb::object answer = static_cast<Functions*>(context)->infer(types, attributes_of(node), output_count);
    const auto given = nb::cast<std::vector<std::pair<std::string, std::optional<std::vector<int64_t>>>>>(answer);
    for (size_t at = 0; at < std::min(output_count, given.size()); ++at) {
      const auto& [dtype, sizes] = given[at];
      outputs[at] = {static_cast<tenon_dtype>(dtype_named(dtype)), -1, {}};
      if (!sizes) continue;
      if (sizes->size() > Dims::max_rank) throw Error(Code::usage, "an output has more than 8 axes");
      outputs[at].rank = static_cast<int32_t>(sizes->size());
      std::copy(sizes->begin(), sizes->end(), outputs[at].dims);
    }
  });
}

int compute(void* context, const tenon_op_api* api, const tenon_op_node* node, const tenon_op_tensor* inputs,
            size_t input_count, const tenon_op_tensor* outputs, size_t output_count) {
  const auto view = [](const tenon_op_tensor& one) {
    const Dims dims(std::span<const int64_t>(one.type.dims, static_cast<size_t>(one.type.rank)));
    return Tensor::view(static_cast<DType>(one.type.dtype), dims, one.data);
  };
  return call(api, node, [&] {
    // Copies: the function may keep what it is given.
    nb::list values;
    for (size_t at = 0; at < input_count; ++at)
      values.append(inputs[at].data ? to_python(view(inputs[at]).copy()) : nb::none());
    const nb::object answer = static_cast<Functions*>(context)->compute(values, attributes_of(node), output_count);
    size_t at = 0;
    for (nb::handle value : nb::cast<nb::sequence>(answer)) {
      if (at == output_count) break;
      const Tensor target = view(outputs[at]);
      Held held;
      const Tensor found = held.tensor(value, target.dtype(), "output " + std::to_string(at));
      if (found.dtype() != target.dtype() || !(found.dims() == target.dims()))
        throw Error(Code::usage, "output " + std::to_string(at) + " is not of the type that infer() said",
                    {.why = std::string(dtype_name(found.dtype())) + " " + found.dims().str() + ", not " +
                            dtype_name(target.dtype()) + " " + target.dims().str()});
      found.copy_to(outputs[at].data);
      ++at;
    }
  });
}

void add(const std::string& domain, const std::string& name, std::pair<int, int> inputs, std::pair<int, int> outputs,
         nb::object infer_function, nb::object compute_function) {
  tenon_custom_op op{};
  op.size = sizeof op;
  op.domain = domain.c_str(), op.name = name.c_str();
  op.min_inputs = inputs.first, op.max_inputs = inputs.second;
  op.min_outputs = outputs.first, op.max_outputs = outputs.second;
  op.infer = infer, op.compute = compute;
  auto functions = std::make_unique<Functions>(Functions{std::move(infer_function), std::move(compute_function)});
  op.context = functions.get();
  ops::add_custom_op(op);
  static_cast<void>(functions.release());
  for (const backends::Backend* backend : backends::backends())
    backend->add_custom_op(*ops::custom_op(ops::id_of(op)));
}

}  // namespace

void bind_custom_ops(nb::module_& module) {
  module.def("add_custom_op", &add, nb::arg("domain"), nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"),
             nb::arg("infer"), nb::arg("compute"),
             nb::sig("def add_custom_op(domain: str, name: str, inputs: tuple[int, int], outputs: tuple[int, int], "
                     "infer: collections.abc.Callable[[list[typing.Any], dict[str, typing.Any], int], typing.Any], "
                     "compute: collections.abc.Callable[[list[typing.Any], dict[str, typing.Any], int], typing.Any]) "
                     "-> None"));
}

}  // namespace tenon::python
