// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/vendor/dnn.h"

#include <tenon/error.h>

#include <map>
#include <mutex>

namespace tenon::cuda {

const Dnn& dnn() {
  static const Dnn opened = [] {
    Dnn d{};
    d.library = open_library({"libcudnn.so.9"});
    if (!d.library) {
      d.why = d.library.why;
      return d;
    }
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(d.library.find(symbol));
      if (!function && d.why.empty()) d.why = "it has no " + std::string(symbol);
    };
    bind(d.GetVersion, "cudnnGetVersion");
    bind(d.Create, "cudnnCreate");
    bind(d.SetStream, "cudnnSetStream");
    bind(d.BackendCreateDescriptor, "cudnnBackendCreateDescriptor");
    bind(d.BackendDestroyDescriptor, "cudnnBackendDestroyDescriptor");
    bind(d.BackendFinalize, "cudnnBackendFinalize");
    bind(d.BackendSetAttribute, "cudnnBackendSetAttribute");
    bind(d.BackendGetAttribute, "cudnnBackendGetAttribute");
    bind(d.BackendExecute, "cudnnBackendExecute");
    return d;
  }();
  return opened;
}

DnnHandle dnn_handle(int device) {
  static std::mutex mutex;
  static std::map<int, DnnHandle> handles;
  const std::lock_guard lock(mutex);
  DnnHandle& handle = handles[device];
  // Never destroyed: the driver may be gone before our statics are.
  if (!handle) check_dnn(dnn().Create(&handle), "cudnnCreate");
  return handle;
}

void dnn_execute(DnnHandle handle, Stream stream, void* plan, void* pack) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  check_dnn(dnn().SetStream(handle, stream), "cudnnSetStream");
  check_dnn(dnn().BackendExecute(handle, plan, pack), "cudnnBackendExecute");
}

void check_dnn(int result, const char* call) {
  if (result == 0) return;
  throw Error(Code::unsupported, "cuDNN reports an error", {.where = call, .why = "status " + std::to_string(result)});
}

DnnDescriptor::DnnDescriptor(int kind) {
  check_dnn(dnn().BackendCreateDescriptor(kind, &made_), "cudnnBackendCreateDescriptor");
}

DnnDescriptor::~DnnDescriptor() {
  if (made_) dnn().BackendDestroyDescriptor(made_);
}

void DnnDescriptor::set(int attribute, int type, int64_t count, const void* values) {
  check_dnn(dnn().BackendSetAttribute(made_, attribute, type, count, values), "cudnnBackendSetAttribute");
}

void DnnDescriptor::finalize() { check_dnn(dnn().BackendFinalize(made_), "cudnnBackendFinalize"); }

}  // namespace tenon::cuda
