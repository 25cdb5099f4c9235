// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/device_query.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/isa.h"
#include "base/counted.h"
#include "base/memory.h"

namespace tenon::cpu {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first "key : value" line; "" where there is none.
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key, 0) == 0 && line.find(':') != std::string::npos) {
      const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
      return start == std::string::npos ? "" : line.substr(start);
    }
  return "";
}

Json caches() {
  Json list = Json::array();
  for (int index = 0; index < 8; ++index) {
    const std::filesystem::path folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}", index);
    const std::string size = line_of(folder / "size");
    if (!size.empty())
      list.push_back({{"level", line_of(folder / "level")}, {"type", line_of(folder / "type")}, {"size", size}});
  }
  return list;
}

int64_t usable() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
}

int64_t kilobytes(const std::string& key) {
  return std::strtoll(field("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

}  // namespace

std::string device_query_text(Json& facts) {
  const std::string name = field("/proc/cpuinfo", "model name");
  const int64_t online = sysconf(_SC_NPROCESSORS_ONLN), total = kilobytes("MemTotal"),
                available = kilobytes("MemAvailable");
  facts["cpu"] = {{"name", name},
                  {"isa", isa_name(detect_isa())},
                  {"isa_used", isa_name(active_isa())},
                  {"cores_usable", usable()},
                  {"cores_online", online},
                  {"caches", caches()},
                  {"memory_bytes", total},
                  {"memory_available_bytes", available}};
  std::string text = fmt::format("cpu   {}\n      kernels for {}, {} of {} usable\n", name, isa_name(active_isa()),
                                 usable(), counted(online, "core"));
  for (const Json& cache : facts["cpu"]["caches"])
    text += fmt::format("      L{} {} {}\n", cache["level"].get<std::string>(), cache["type"].get<std::string>(),
                        cache["size"].get<std::string>());
  return text + fmt::format("      memory {}, {} available\n", memory_text(total), memory_text(available));
}

}  // namespace tenon::cpu
