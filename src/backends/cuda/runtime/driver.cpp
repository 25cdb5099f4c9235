// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/driver.h"

#include <tenon/error.h>

#include <algorithm>

#include "base/memory.h"

namespace tenon::cuda {
namespace {

template <class F>
bool bind(const Library& library, F& function, const char* symbol) {
  function = reinterpret_cast<F>(library.find(symbol));
  return function != nullptr;
}

/// The first function that is missing, or nullptr.
const char* bind_all(Driver& d) {
  const Library& l = d.library;
#define BIND(member, symbol) \
  if (!bind(l, d.member, symbol)) return symbol
  BIND(Init, "cuInit");
  BIND(DriverGetVersion, "cuDriverGetVersion");
  BIND(GetErrorName, "cuGetErrorName");
  BIND(GetErrorString, "cuGetErrorString");
  BIND(DeviceGetCount, "cuDeviceGetCount");
  BIND(DeviceGet, "cuDeviceGet");
  BIND(DeviceGetName, "cuDeviceGetName");
  BIND(DeviceTotalMem, "cuDeviceTotalMem_v2");
  BIND(DeviceGetAttribute, "cuDeviceGetAttribute");
  BIND(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  BIND(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  BIND(CtxSetCurrent, "cuCtxSetCurrent");
  BIND(CtxSynchronize, "cuCtxSynchronize");
  BIND(MemGetInfo, "cuMemGetInfo_v2");
  BIND(MemAlloc, "cuMemAlloc_v2");
  BIND(MemFree, "cuMemFree_v2");
  BIND(MemAllocHost, "cuMemAllocHost_v2");
  BIND(MemFreeHost, "cuMemFreeHost");
  BIND(MemcpyHtoD, "cuMemcpyHtoD_v2");
  BIND(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  BIND(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  BIND(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  BIND(MemsetD8, "cuMemsetD8_v2");
  BIND(MemsetD8Async, "cuMemsetD8Async");
  BIND(StreamCreate, "cuStreamCreate");
  BIND(StreamDestroy, "cuStreamDestroy_v2");
  BIND(StreamSynchronize, "cuStreamSynchronize");
  BIND(StreamWaitEvent, "cuStreamWaitEvent");
  BIND(StreamBeginCapture, "cuStreamBeginCapture_v2");
  BIND(StreamEndCapture, "cuStreamEndCapture");
  BIND(GraphInstantiate, "cuGraphInstantiateWithFlags");
  BIND(GraphDestroy, "cuGraphDestroy");
  BIND(GraphExecDestroy, "cuGraphExecDestroy");
  BIND(GraphLaunch, "cuGraphLaunch");
  BIND(EventCreate, "cuEventCreate");
  BIND(EventDestroy, "cuEventDestroy_v2");
  BIND(EventRecord, "cuEventRecord");
  BIND(EventSynchronize, "cuEventSynchronize");
  BIND(EventElapsedTime, "cuEventElapsedTime");
  BIND(ModuleLoadData, "cuModuleLoadData");
  BIND(ModuleUnload, "cuModuleUnload");
  BIND(ModuleGetFunction, "cuModuleGetFunction");
  BIND(ModuleGetGlobal, "cuModuleGetGlobal_v2");
  BIND(MemcpyDtoH, "cuMemcpyDtoH_v2");
  BIND(FuncSetAttribute, "cuFuncSetAttribute");
  BIND(LaunchKernelEx, "cuLaunchKernelEx");
#undef BIND
  bind(l, d.TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  bind(l, d.TensorMapEncodeIm2col, "cuTensorMapEncodeIm2col");
  bind(l, d.DeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  bind(l, d.CtxGetCurrent, "cuCtxGetCurrent");
  bind(l, d.StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v3");
  bind(l, d.StreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies_v2");
  bind(l, d.StreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph");
  bind(l, d.GraphConditionalHandleCreate, "cuGraphConditionalHandleCreate");
  bind(l, d.GraphAddNode, "cuGraphAddNode_v2");
  if (bind(l, d.MemGetAllocationGranularity, "cuMemGetAllocationGranularity") &&
      bind(l, d.MemAddressReserve, "cuMemAddressReserve") && bind(l, d.MemAddressFree, "cuMemAddressFree") &&
      bind(l, d.MemCreate, "cuMemCreate") && bind(l, d.MemRelease, "cuMemRelease") &&
      bind(l, d.MemMap, "cuMemMap") && bind(l, d.MemUnmap, "cuMemUnmap"))
    bind(l, d.MemSetAccess, "cuMemSetAccess");
  return nullptr;
}

Driver open() {
  Driver d{};
  d.library = open_library({"libcuda.so.1"});
  if (!d.library) {
    d.why = "there is no NVIDIA driver: " + d.library.why;
    return d;
  }
  if (const char* missing = bind_all(d)) {
    d.why = "the NVIDIA driver is too old: it has no " + std::string(missing);
    return d;
  }
  const auto failed = [&](int result, const char* call) {
    if (result == 0) return false;
    const char* text = nullptr;
    d.GetErrorString(result, &text);
    d.why = std::string(call) + " says: " + (text ? text : std::to_string(result));
    return true;
  };
  if (failed(d.Init(0), "cuInit") || failed(d.DriverGetVersion(&d.version), "cuDriverGetVersion") ||
      failed(d.DeviceGetCount(&d.devices), "cuDeviceGetCount"))
    return d;
  if (d.devices == 0) d.why = "the NVIDIA driver sees no GPU";
  return d;
}

bool is_fatal(int result) {
  using namespace constants;
  constexpr int fatal[] = {uncorrectable_memory,
                           uncorrectable_link,
                           illegal_address,
                           launch_timeout,
                           assertion,
                           stack_error,
                           illegal_instruction,
                           misaligned_address,
                           invalid_address_space,
                           launch_failed,
                           invalid_program_counter};
  return std::find(std::begin(fatal), std::end(fatal), result) != std::end(fatal);
}

}  // namespace

const Driver& driver() {
  static const Driver opened = open();
  return opened;
}

const Driver& usable_driver() {
  const Driver& d = driver();
  if (!d.why.empty())
    throw Error(Code::unsupported, "no NVIDIA GPU can be used",
                {.where = "--device cuda",
                 .why = d.why,
                 .hint = "leave out --device to run on the CPU; \"tenon devices\" shows what is missing"});
  return d;
}

void check(int result, const char* call) {
  if (result == 0) return;
  if (result == constants::out_of_memory) throw short_of_memory("the driver, for " + std::string(call), 0);
  const char *name = nullptr, *text = nullptr;
  driver().GetErrorName(result, &name);
  driver().GetErrorString(result, &text);
  const Error::Detail detail{.where = call, .why = std::string(name ? name : "?") + ": " + (text ? text : "?")};
  if (is_fatal(result)) throw Fault(Code::internal, "the GPU has failed", detail);
  throw Error(Code::unsupported, "the GPU reports an error", detail);
}

Error short_of_memory(const std::string& what, size_t needed) {
  size_t free_bytes = 0, all = 0;
  const bool known = driver().MemGetInfo(&free_bytes, &all) == 0;
  return short_of_memory(what, needed, known ? static_cast<int64_t>(free_bytes) : -1);
}

Error short_of_memory(const std::string& what, size_t needed, int64_t free_bytes) {
  return Error(Code::resource, "the GPU is out of memory",
               {.where = what,
                .why = (needed > 0 ? "it takes " + memory_text(static_cast<int64_t>(needed)) : "it takes some memory") +
                       (free_bytes < 0 ? "" : ", and " + memory_text(free_bytes) + " are free"),
                .hint = "give smaller --shapes or another --device, or end what else uses the GPU"});
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace tenon::cuda
