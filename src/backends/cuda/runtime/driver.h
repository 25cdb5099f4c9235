// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/error.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cuda/runtime/library.h"

/// The part of the CUDA driver's interface that Tenon uses, by our own declarations.
namespace tenon::cuda {

using Address = uint64_t;  // in device memory
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using CapturedGraph = struct CapturedGraphTag*;
using GraphExec = struct GraphExecTag*;
using GraphNode = struct GraphNodeTag*;
using GraphEdge = struct GraphEdgeTag;

/// What a TMA instruction knows of a tensor; written by the driver.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int value;
  };
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

struct MemoryPlace {
  int type, device;
};
/// Of memory that is put behind addresses.
struct MemoryKind {
  int type, handles;
  MemoryPlace place;
  void* metadata;
  unsigned char flags[8];
};
struct MemoryAccess {
  MemoryPlace place;
  int rights;
};

/// Of a conditional node, in the space that the driver keeps for nodes of all kinds.
struct GraphNodeParams {
  int type, reserved[3];
  uint64_t condition;
  int repeats;
  unsigned bodies;
  CapturedGraph* graphs;  // the driver's
  Context context;
  unsigned char rest[208];
};
static_assert(sizeof(GraphNodeParams) == 256);

namespace constants {
constexpr int attribute_multiprocessors = 16, attribute_l2_bytes = 38, attribute_major = 75, attribute_minor = 76,
              attribute_shared_bytes = 97, attribute_ranges = 102;
constexpr int memory_pinned = 1, memory_on_device = 1, memory_read_write = 3;
constexpr int launch_programmatic_serialization = 6;
constexpr int function_max_dynamic_shared = 8;
constexpr int stream_non_blocking = 1;
constexpr int event_without_time = 2;
constexpr int capture_thread_local = 1, capture_set_dependencies = 1;
constexpr int node_conditional = 13, conditional_if = 0, conditional_while = 1;
constexpr int map_u8 = 0, map_f16 = 6, map_f32 = 7;
constexpr int map_swizzle_none = 0, map_swizzle_32 = 1, map_swizzle_64 = 2, map_swizzle_128 = 3;
constexpr int map_l2_256 = 3;
constexpr int out_of_memory = 2;
// After these no call of the process succeeds on the device.
constexpr int uncorrectable_memory = 214, uncorrectable_link = 220, illegal_address = 700, launch_timeout = 702,
              assertion = 710, stack_error = 714, illegal_instruction = 715, misaligned_address = 716,
              invalid_address_space = 717, invalid_program_counter = 718, launch_failed = 719;
}  // namespace constants

/// Result of every function: 0 is success.
struct Driver {
  int (*Init)(unsigned);
  int (*DriverGetVersion)(int*);
  int (*GetErrorName)(int, const char**);
  int (*GetErrorString)(int, const char**);
  int (*DeviceGetCount)(int*);
  int (*DeviceGet)(int*, int);
  int (*DeviceGetName)(char*, int, int);
  int (*DeviceTotalMem)(size_t*, int);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*DevicePrimaryCtxRetain)(Context*, int);
  int (*DevicePrimaryCtxRelease)(int);
  int (*CtxSetCurrent)(Context);
  int (*CtxSynchronize)();
  int (*MemGetInfo)(size_t*, size_t*);
  int (*MemAlloc)(Address*, size_t);
  int (*MemFree)(Address);
  int (*MemAllocHost)(void**, size_t);
  int (*MemFreeHost)(void*);
  int (*MemcpyHtoD)(Address, const void*, size_t);
  int (*MemcpyHtoDAsync)(Address, const void*, size_t, Stream);
  int (*MemcpyDtoHAsync)(void*, Address, size_t, Stream);
  int (*MemcpyDtoDAsync)(Address, Address, size_t, Stream);
  int (*MemsetD8)(Address, unsigned char, size_t);
  int (*MemsetD8Async)(Address, unsigned char, size_t, Stream);
  int (*StreamCreate)(Stream*, unsigned);
  int (*StreamDestroy)(Stream);
  int (*StreamSynchronize)(Stream);
  int (*StreamWaitEvent)(Stream, Event, unsigned);
  int (*StreamBeginCapture)(Stream, int);
  int (*StreamEndCapture)(Stream, CapturedGraph*);
  int (*GraphInstantiate)(GraphExec*, CapturedGraph, unsigned long long);
  int (*GraphDestroy)(CapturedGraph);
  int (*GraphExecDestroy)(GraphExec);
  int (*GraphLaunch)(GraphExec, Stream);
  int (*EventCreate)(Event*, unsigned);
  int (*EventDestroy)(Event);
  int (*EventRecord)(Event, Stream);
  int (*EventSynchronize)(Event);
  int (*EventElapsedTime)(float*, Event, Event);
  int (*ModuleLoadData)(Module*, const void*);
  int (*ModuleUnload)(Module);
  int (*ModuleGetFunction)(Function*, Module, const char*);
  int (*ModuleGetGlobal)(Address*, size_t*, Module, const char*);
  int (*MemcpyDtoH)(void*, Address, size_t);
  int (*FuncSetAttribute)(Function, int, int);
  int (*LaunchKernelEx)(const LaunchConfig*, Function, void**, void**);
  // Absent in drivers before CUDA 12; only kernels for compute capability 9.0 ask for them.
  int (*TensorMapEncodeTiled)(TensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                              const uint32_t*, int, int, int, int);
  int (*TensorMapEncodeIm2col)(TensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*,
                               const int*, uint32_t, uint32_t, const uint32_t*, int, int, int, int);

  // May be absent: memory behind a range of addresses; MemSetAccess where all are there.
  int (*MemGetAllocationGranularity)(size_t*, const MemoryKind*, int);
  int (*MemAddressReserve)(Address*, size_t, size_t, Address, unsigned long long);
  int (*MemAddressFree)(Address, size_t);
  int (*MemCreate)(unsigned long long*, size_t, const MemoryKind*, unsigned long long);
  int (*MemRelease)(unsigned long long);
  int (*MemMap)(Address, size_t, size_t, unsigned long long, unsigned long long);
  int (*MemUnmap)(Address, size_t);
  int (*MemSetAccess)(Address, size_t, const MemoryAccess*, size_t);

  // May be absent: names a device to the management library.
  int (*DeviceGetPCIBusId)(char*, int, int);

  // Absent in drivers before CUDA 12.4: graphs with conditions.
  int (*CtxGetCurrent)(Context*);
  int (*StreamGetCaptureInfo)(Stream, int*, unsigned long long*, CapturedGraph*, const GraphNode**, const GraphEdge**,
                              size_t*);
  int (*StreamUpdateCaptureDependencies)(Stream, GraphNode*, const GraphEdge*, size_t, unsigned);
  int (*StreamBeginCaptureToGraph)(Stream, CapturedGraph, const GraphNode*, const GraphEdge*, size_t, int);
  int (*GraphConditionalHandleCreate)(uint64_t*, CapturedGraph, Context, unsigned, unsigned);
  int (*GraphAddNode)(GraphNode*, CapturedGraph, const GraphNode*, const GraphEdge*, size_t, GraphNodeParams*);

  Library library;
  std::string why;  // why it cannot be used; empty when it can
  int version = 0;  // 13000 is CUDA 13.0
  int devices = 0;
};

/// The driver, opened and initialised at the first call. With `why` set, none of its functions may be called.
const Driver& driver();
/// The driver; throws Error(unsupported) saying why there is none.
const Driver& usable_driver();
/// A result after which no call of this process succeeds on the device: an illegal address in a kernel, say.
class Fault : public Error {
 public:
  using Error::Error;
};

/// Throws for a result other than 0, naming the call: short_of_memory() where memory is short, Fault where the device
/// is of no more use, else Error(unsupported).
void check(int result, const char* call);
/// Error(resource) for `what` that takes `needed` bytes of the current device's memory; 0: nobody knows.
Error short_of_memory(const std::string& what, size_t needed);
/// The same where so many bytes are free; negative: nobody knows.
Error short_of_memory(const std::string& what, size_t needed, int64_t free_bytes);
/// "13.0"
std::string version_text(int version);

}  // namespace tenon::cuda
