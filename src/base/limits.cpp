#include <tenon/limits.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

#include "base/memory.h"
#include "tenon/error.h"

namespace tenon {
namespace {

constexpr double usable_share = 0.8;
constexpr int64_t most = INT64_MAX / 2;

std::atomic<int64_t> held{0}, memory_cap{0}, round_cap{Limits{}.loop_rounds}, workspace_cap{0};

int64_t number_in(const char* path) {
  int64_t value = most;
  std::ifstream(path) >> value;
  return value > 0 ? value : most;
}

/// Memory the machine, or the cgroup where it allows less, has to spare.
int64_t free_bytes() {
  int64_t bytes = most;
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (int64_t kib; file >> key >> kib && std::getline(file, unit);)
    if (key == "MemAvailable:") bytes = kib * 1024;
  const int64_t allowed = number_in("/sys/fs/cgroup/memory.max");
  if (allowed < most)
    bytes = std::min(bytes, std::max<int64_t>(0, allowed - number_in("/sys/fs/cgroup/memory.current")));
  return bytes;
}

int64_t default_cap() {
  static const int64_t bytes = static_cast<int64_t>(static_cast<double>(free_bytes()) * usable_share);
  return bytes;
}

}  // namespace

Limits limits() {
  const int64_t cap = memory_cap.load();
  return {cap > 0 ? cap : default_cap(), round_cap.load(), workspace_cap.load()};
}

void set_limits(const Limits& limits) {
  if (limits.memory_bytes < 0 || limits.workspace_bytes < 0 || limits.loop_rounds < 1)
    throw Error(Code::usage,
                limits.loop_rounds < 1 ? "a loop must be allowed a round" : "a limit of memory is negative");
  memory_cap = limits.memory_bytes;
  round_cap = limits.loop_rounds;
  workspace_cap = limits.workspace_bytes;
}

int64_t given_memory_limit() { return memory_cap.load(); }

bool take_memory(int64_t bytes) {
  const int64_t cap = limits().memory_bytes;
  int64_t now = held.load();
  do {
    if (bytes > cap - now) return false;
  } while (!held.compare_exchange_weak(now, now + bytes));
  return true;
}

void give_memory_back(int64_t bytes) noexcept { held -= bytes; }

std::string memory_text(int64_t bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  const int64_t tenths = static_cast<int64_t>(value * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " " + units[unit];
}

}  // namespace tenon
