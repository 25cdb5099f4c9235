#pragma once
#include <cstdint>
#include <memory>
#include <string>

/// NVIDIA's management library, opened when asked for: what a GPU does while it works.
namespace tenon::cuda {

/// Medians over the samples, and the largest memory and power; negative where the library does not say.
struct Activity {
  int samples = 0;
  double utilisation_percent = -1, sm_clock_mhz = -1, memory_clock_mhz = -1, watts = -1, celsius = -1;
  int64_t memory_used_bytes = -1, memory_total_bytes = -1;  // of the whole device, by all processes
  std::string driver;
};

/// Free bytes of a device's memory, which needs no context; negative where the library does not say.
int64_t free_memory(int device);

/// Samples a device every 100 ms in a thread of its own from the start until read.
class Meter {
 public:
  explicit Meter(int device);
  ~Meter();
  /// Stops the sampling. `why` is empty unless there is nothing to read.
  Activity read(std::string& why);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::cuda
