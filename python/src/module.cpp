// SPDX-License-Identifier: Apache-2.0
#include <typeinfo>

#include "session.h"

namespace tenon::python {
namespace {

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    const nb::object raised = exception_of(error);
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
  } catch (const std::bad_cast&) {
    PyErr_SetString(PyExc_TypeError, "a value is of another type than is taken here");
  }
}

}  // namespace
}  // namespace tenon::python

NB_MODULE(_core, module) {
  using namespace tenon::python;
  module.doc() = "The compiled part of tenon; use the package itself.";
  nb::register_exception_translator(&translate);
  // Objects that live as long as the process are no leak.
  nb::set_leak_warnings(false);
  module.attr("version") = tenon::version();
  bind_tensors(module);
  bind_states(module);
  bind_sessions(module);
  bind_engines(module);
  bind_models(module);
  bind_build(module);
  bind_custom_ops(module);
  bind_explain(module);
  bind_vision(module);
}
