// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/device.h"

#include <tenon/error.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <random>
#include <set>
#include <thread>

#include "backends/cuda/runtime/management.h"
#include "base/cores.h"
#include "base/memory.h"

namespace tenon::cuda {
namespace {

constexpr size_t usual_context_bytes = size_t{527} << 20;  // measured on a GPU of 132 multiprocessors

std::string key_of(const Source& source) {
  std::string key = source.file + source.text;
  for (const std::string& define : source.defines) key += ' ' + define;
  return key;
}

}  // namespace

Properties properties_of(int index) {
  const Driver& d = usable_driver();
  if (index >= d.devices)
    throw Error(
        Code::usage, "there is no GPU " + std::to_string(index),
        {.where = "--device cuda:" + std::to_string(index), .why = "the driver sees " + std::to_string(d.devices)});
  Properties p;
  p.index = index;
  int handle = 0;
  check(d.DeviceGet(&handle, index), "cuDeviceGet");
  char name[256] = {};
  check(d.DeviceGetName(name, sizeof name, handle), "cuDeviceGetName");
  p.name = name;
  const auto attribute = [&](int which) {
    int value = 0;
    check(d.DeviceGetAttribute(&value, which, handle), "cuDeviceGetAttribute");
    return value;
  };
  p.major = attribute(constants::attribute_major);
  p.minor = attribute(constants::attribute_minor);
  p.multiprocessors = attribute(constants::attribute_multiprocessors);
  p.shared_bytes = attribute(constants::attribute_shared_bytes);
  p.l2_bytes = attribute(constants::attribute_l2_bytes);
  size_t bytes = 0;
  check(d.DeviceTotalMem(&bytes, handle), "cuDeviceTotalMem");
  p.memory_bytes = static_cast<int64_t>(bytes);
  return p;
}

Device& Device::get(int index) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Device>> devices;
  const std::lock_guard lock(mutex);
  auto& device = devices[index];
  // Never destroyed: the driver may be gone before our statics are.
  if (!device) device = std::make_unique<Device>(properties_of(index));
  device->use();
  return *device;
}

Device::Device(const Properties& properties, std::string architecture)
    : properties_(properties), architecture_(std::move(architecture)) {
  if (properties_.capability() < 75)
    throw Error(Code::unsupported, "the GPU is too old",
                {.where = properties_.name,
                 .why = "its compute capability is " + std::to_string(properties_.major) + "." +
                        std::to_string(properties_.minor) + ", 7.5 is the least"});
  int handle = 0;
  check(driver().DeviceGet(&handle, properties_.index), "cuDeviceGet");
  const int result = driver().DevicePrimaryCtxRetain(&context_, handle);
  if (result == constants::out_of_memory)
    throw short_of_memory("the driver, for its own state", usual_context_bytes, free_memory(properties_.index));
  check(result, "cuDevicePrimaryCtxRetain");
}

void Device::use() const {
  if (dead_.load(std::memory_order_acquire)) throw Error(*last_words_);
  check(driver().CtxSetCurrent(context_), "cuCtxSetCurrent");
}

void Device::give_up(const Fault& fault, const std::string& where) {
  const std::lock_guard lock(mutex_);
  if (!last_words_) {
    last_words_.emplace(
        fault.code(), fault.what(),
        Error::Detail{where, fault.why(),
                      "start the process again, as this one can use cuda:" + std::to_string(properties_.index) +
                          " no more; please report this with the model"});
    dead_.store(true, std::memory_order_release);
  }
  throw Error(*last_words_);
}

bool Device::prepare(const std::vector<Source>& sources, const std::function<bool(size_t, size_t)>& prepared) {
  std::set<std::string> seen;
  std::vector<const Source*> work;
  {
    const std::lock_guard lock(mutex_);
    for (const Source& source : sources)
      if (!source.empty() && !modules_.count(key_of(source)) && seen.insert(key_of(source)).second)
        work.push_back(&source);
  }
  // In an order that mixes the large and the small: what is done says how long the rest takes.
  std::minstd_rand random(1);
  std::shuffle(work.begin(), work.end(), random);
  std::atomic<size_t> next{1}, ready{0};  // the first is this thread's, which is told of one at least
  bool is_wanted = true;
  const auto serve = [&](size_t at, const std::function<bool(size_t, size_t)>& told) {
    for (; at < work.size(); at = next++) {
      try {
        use();
        module(*work[at]);
      } catch (const Error&) {
        // function() compiles it again and reports.
      }
      const size_t so_many = ++ready;
      if (told && !told(so_many, work.size())) is_wanted = false, next = work.size();
    }
  };
  std::vector<std::jthread> threads;
  const size_t count = std::min<size_t>(work.size(), static_cast<size_t>(usable_cores()));
  for (size_t at = 1; at < count; ++at) threads.emplace_back([&] { serve(next++, {}); });
  try {
    serve(0, prepared);
  } catch (...) {
    next = work.size();
    throw;
  }
  return is_wanted;
}

Module Device::module(const Source& source) {
  const std::string key = key_of(source);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = modules_.find(key); found != modules_.end()) return found->second;
  }
  const std::string code =
      compile(source, architecture_.empty() ? architecture_for(properties_.capability(), compiler()) : architecture_);
  // PTX is translated here, by several threads at once.
  Module made = nullptr;
  const int result = driver().ModuleLoadData(&made, code.data());
  if (result == constants::out_of_memory) throw short_of_memory("a kernel of " + source.file, code.size());
  check(result, "cuModuleLoadData");
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = modules_.emplace(key, made);
  if (!is_new) driver().ModuleUnload(made);
  return place->second;
}

Function Device::function(const Source& source, const char* name, int shared_bytes) {
  const Module from = module(source);
  Function function = nullptr;
  check(driver().ModuleGetFunction(&function, from, name), "cuModuleGetFunction");
  if (shared_bytes > 32 * 1024)
    check(driver().FuncSetAttribute(function, constants::function_max_dynamic_shared, shared_bytes),
          "cuFuncSetAttribute");
  return function;
}

std::vector<int> Device::constants(const Source& source, const char* name) {
  Address address = 0;
  size_t bytes = 0;
  check(driver().ModuleGetGlobal(&address, &bytes, module(source), name), "cuModuleGetGlobal");
  std::vector<int> values(bytes / sizeof(int));
  check(driver().MemcpyDtoH(values.data(), address, bytes), "cuMemcpyDtoH");
  return values;
}

}  // namespace tenon::cuda
