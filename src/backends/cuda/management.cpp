#include "backends/cuda/management.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cuda/driver.h"

namespace tenon::cuda {
namespace {

using Handle = struct HandleTag*;
struct Memory {
  unsigned long long total, free, used;
};
struct Utilisation {
  unsigned gpu, memory;
};
constexpr int clock_sm = 1, clock_memory = 2, sensor_gpu = 0;
constexpr auto period = std::chrono::milliseconds(100);

/// Result of every function: 0 is success.
struct Management : Library {
  int (*Init)();
  int (*HandleByBus)(const char*, Handle*);
  int (*MemoryInfo)(Handle, Memory*);
  int (*UtilisationRates)(Handle, Utilisation*);
  int (*ClockInfo)(Handle, int, unsigned*);
  int (*Temperature)(Handle, int, unsigned*);
  int (*PowerUsage)(Handle, unsigned*);
  int (*DriverVersion)(char*, unsigned);
};

const Management& management() {
  static const Management opened = [] {
    Management l{};
    static_cast<Library&>(l) = open_library({"libnvidia-ml.so.1"});
    if (!l) return l;
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(l.find(symbol));
      if (!function && l.why.empty()) l.why = "it has no " + std::string(symbol);
    };
    bind(l.Init, "nvmlInit_v2");
    bind(l.HandleByBus, "nvmlDeviceGetHandleByPciBusId_v2");
    bind(l.MemoryInfo, "nvmlDeviceGetMemoryInfo");
    bind(l.UtilisationRates, "nvmlDeviceGetUtilizationRates");
    bind(l.ClockInfo, "nvmlDeviceGetClockInfo");
    bind(l.Temperature, "nvmlDeviceGetTemperature");
    bind(l.PowerUsage, "nvmlDeviceGetPowerUsage");
    bind(l.DriverVersion, "nvmlSystemGetDriverVersion");
    if (l.why.empty() && l.Init() != 0) l.why = "nvmlInit fails";
    return l;
  }();
  return opened;
}

double median(std::vector<double> values) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
double largest(const std::vector<double>& values) {
  return values.empty() ? -1 : *std::max_element(values.begin(), values.end());
}

/// nullptr where the library does not know the device.
Handle handle_of(int device) {
  char bus[32] = {};
  int number = 0;
  Handle handle = nullptr;
  if (!driver().DeviceGetPCIBusId || driver().DeviceGet(&number, device) != 0 ||
      driver().DeviceGetPCIBusId(bus, sizeof bus, number) != 0 || management().HandleByBus(bus, &handle) != 0)
    return nullptr;
  return handle;
}

}  // namespace

int64_t free_memory(int device) {
  const Management& l = management();
  Memory memory{};
  if (!l || !l.why.empty()) return -1;
  const Handle handle = handle_of(device);
  return handle && l.MemoryInfo(handle, &memory) == 0 ? static_cast<int64_t>(memory.free) : -1;
}

struct Meter::Impl {
  std::string why;
  Handle handle = nullptr;
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  std::vector<double> utilisation, sm_clock, memory_clock, watts, celsius, used;
  double total = -1;
  int samples = 0;
  std::thread thread;

  void sample() {
    const Management& l = management();
    ++samples;
    Memory memory{};
    if (l.MemoryInfo(handle, &memory) == 0)
      used.push_back(static_cast<double>(memory.used)), total = static_cast<double>(memory.total);
    Utilisation rates{};
    if (l.UtilisationRates(handle, &rates) == 0) utilisation.push_back(rates.gpu);
    unsigned number = 0;
    if (l.ClockInfo(handle, clock_sm, &number) == 0) sm_clock.push_back(number);
    if (l.ClockInfo(handle, clock_memory, &number) == 0) memory_clock.push_back(number);
    if (l.Temperature(handle, sensor_gpu, &number) == 0) celsius.push_back(number);
    if (l.PowerUsage(handle, &number) == 0) watts.push_back(number * 1e-3);
  }
  void work() {
    std::unique_lock lock(mutex);
    while (!done) {
      sample();
      wake.wait_for(lock, period, [&] { return done; });
    }
  }
};

Meter::Meter(int device) : impl_(std::make_unique<Impl>()) {
  const Management& l = management();
  impl_->why = l ? l.why : l.why.empty() ? "libnvidia-ml.so.1 was not found" : l.why;
  if (!impl_->why.empty()) return;
  impl_->handle = handle_of(device);
  if (!impl_->handle) {
    impl_->why = "it does not know the device";
    return;
  }
  impl_->thread = std::thread([this] { impl_->work(); });
}

Meter::~Meter() {
  std::string why;
  read(why);
}

Activity Meter::read(std::string& why) {
  if (impl_->thread.joinable()) {
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->done = true;
    }
    impl_->wake.notify_all();
    impl_->thread.join();
  }
  why = impl_->why;
  Activity result;
  if (!why.empty()) return result;
  char text[96] = {};
  if (management().DriverVersion(text, sizeof text) == 0) result.driver = text;
  result.samples = impl_->samples;
  result.utilisation_percent = median(impl_->utilisation);
  result.sm_clock_mhz = median(impl_->sm_clock), result.memory_clock_mhz = median(impl_->memory_clock);
  result.watts = largest(impl_->watts), result.celsius = largest(impl_->celsius);
  result.memory_used_bytes = static_cast<int64_t>(largest(impl_->used));
  result.memory_total_bytes = static_cast<int64_t>(impl_->total);
  return result;
}

}  // namespace tenon::cuda
