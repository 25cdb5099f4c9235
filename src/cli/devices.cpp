#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/isa.h"
#include "backends/cuda/survey.h"
#include "base/knobs.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/video.h"

namespace tenon::cli {
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

Json environment() {
  Json list = Json::array();
  for (const knobs::Knob* knob : knobs::all()) {
    const auto value = knobs::value(*knob);
    list.push_back({{"name", knob->name},
                    {"value", value ? Json(*value) : Json()},
                    {"values", knob->values},
                    {"says", knob->says}});
  }
  return list;
}

int64_t kilobytes(const std::string& key) {
  return std::strtoll(field("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

Json gpus(const cuda::Survey& survey) {
  Json list = Json::array();
  for (const cuda::Properties& gpu : survey.devices)
    list.push_back({{"index", gpu.index},
                    {"name", gpu.name},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"l2_bytes", gpu.l2_bytes}});
  return list;
}

Json libraries(const cuda::Survey& survey) {
  Json list = Json::array();
  for (const cuda::LibraryState& library : survey.libraries)
    list.push_back({{"name", library.name},
                    {"version", library.version},
                    {"path", library.path},
                    {"why", library.why},
                    {"hint", library.hint}});
  return list;
}

void print(const cuda::Survey& survey) {
  if (survey.devices.empty()) fmt::print("cuda  none: {}\n", survey.why);
  for (const cuda::Properties& gpu : survey.devices)
    fmt::print("cuda:{} {}, compute capability {}.{}\n       {} multiprocessors, memory {}, L2 {}\n", gpu.index,
               printable(gpu.name), gpu.major, gpu.minor, gpu.multiprocessors, bytes_text(gpu.memory_bytes),
               bytes_text(gpu.l2_bytes));
  for (const cuda::LibraryState& library : survey.libraries) {
    if (library.why.empty()) fmt::print("      {} {} in {}\n", library.name, library.version, printable(library.path));
    else if (!survey.devices.empty() || library.name != "driver")
      fmt::print("      no {}: {}\n      you can: {}\n", library.name, printable(library.why), library.hint);
  }
}

int work(const std::string& json) {
  Json cpu = {{"name", field("/proc/cpuinfo", "model name")},  {"isa", cpu::isa_name(cpu::detect_isa())},
              {"isa_used", cpu::isa_name(cpu::active_isa())},  {"cores_usable", usable()},
              {"cores_online", sysconf(_SC_NPROCESSORS_ONLN)}, {"caches", caches()},
              {"memory_bytes", kilobytes("MemTotal")},         {"memory_available_bytes", kilobytes("MemAvailable")}};
  const Json known = environment();
  const cuda::Survey survey = cuda::survey();
  if (json != "-") {
    fmt::print("cpu   {}\n", cpu["name"].get<std::string>());
    fmt::print("      kernels for {}, {} of {} cores usable\n", cpu["isa_used"].get<std::string>(), usable(),
               cpu["cores_online"].get<int64_t>());
    for (const Json& cache : cpu["caches"])
      fmt::print("      L{} {} {}\n", cache["level"].get<std::string>(), cache["type"].get<std::string>(),
                 cache["size"].get<std::string>());
    fmt::print("      memory {}, {} available\n", bytes_text(cpu["memory_bytes"]),
               bytes_text(cpu["memory_available_bytes"]));
    print(survey);
    fmt::print("video {}\n",
               vision::video_available() ? "yes, by FFmpeg" : "no: this build has no FFmpeg");
    fmt::print("\nEnvironment:\n");
    for (const Json& knob : known)
      fmt::print("  {:<16} {}\n                   {} ({})\n", knob["name"].get<std::string>(),
                 knob["value"].is_null() ? "not set" : printable(knob["value"].get<std::string>()),
                 knob["says"].get<std::string>(), knob["values"].get<std::string>());
  }
  if (!json.empty())
    write_json(json, {{"cpu", cpu},
                      {"cuda", gpus(survey)},
                      {"cuda_why", survey.why},
                      {"cuda_libraries", libraries(survey)},
                      {"video", vision::video_available()},
                      {"environment", known}});
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto json = std::make_shared<std::string>();
  add_json(app, *json);
  flags.footer("Example:\n  tenon devices --json -");
  return [json] { return work(*json); };
}

const Registrar registrar({9, "devices", "Show what this machine has and what of it is used", add});

}  // namespace
}  // namespace tenon::cli
