// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime/management.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cuda/runtime/driver.h"

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

namespace {

class Sampler : public backends::Meter {
 public:
  explicit Sampler(int device) {
    const Management& l = management();
    why_ = l ? l.why : l.why.empty() ? "libnvidia-ml.so.1 was not found" : l.why;
    if (!why_.empty()) return;
    handle_ = handle_of(device);
    if (!handle_) why_ = "it does not know the device";
    else thread_ = std::thread([this] { work(); });
  }

  ~Sampler() override { stop(); }

  backends::Activity read(std::string& why) override {
    stop();
    why = why_;
    backends::Activity result;
    if (!why.empty()) return result;
    char text[96] = {};
    if (management().DriverVersion(text, sizeof text) == 0) result.driver = text;
    result.samples = samples_;
    result.utilisation_percent = median(utilisation_);
    result.sm_clock_mhz = median(sm_clock_), result.memory_clock_mhz = median(memory_clock_);
    result.watts = largest(watts_), result.celsius = largest(celsius_);
    result.memory_used_bytes = static_cast<int64_t>(largest(used_));
    result.memory_total_bytes = static_cast<int64_t>(total_);
    return result;
  }

 private:
  void sample() {
    const Management& l = management();
    ++samples_;
    Memory memory{};
    if (l.MemoryInfo(handle_, &memory) == 0)
      used_.push_back(static_cast<double>(memory.used)), total_ = static_cast<double>(memory.total);
    Utilisation rates{};
    if (l.UtilisationRates(handle_, &rates) == 0) utilisation_.push_back(rates.gpu);
    unsigned number = 0;
    if (l.ClockInfo(handle_, clock_sm, &number) == 0) sm_clock_.push_back(number);
    if (l.ClockInfo(handle_, clock_memory, &number) == 0) memory_clock_.push_back(number);
    if (l.Temperature(handle_, sensor_gpu, &number) == 0) celsius_.push_back(number);
    if (l.PowerUsage(handle_, &number) == 0) watts_.push_back(number * 1e-3);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      sample();
      wake_.wait_for(lock, period, [&] { return done_; });
    }
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  std::string why_;
  Handle handle_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::vector<double> utilisation_, sm_clock_, memory_clock_, watts_, celsius_, used_;
  double total_ = -1;
  int samples_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<backends::Meter> make_meter(int device) { return std::make_unique<Sampler>(device); }

}  // namespace tenon::cuda
