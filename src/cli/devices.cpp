// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <tenon/limits.h>

#include "backends/backend.h"
#include "base/container.h"
#include "base/cores.h"
#include "base/knobs.h"
#include "base/memory.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "cli/verb.h"
#include "vision/video.h"

namespace tenon::cli::devices_verb {
namespace {

using Json = nlohmann::ordered_json;

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

/// What the container leaves of the machine, as JSON and as words.
Json container(std::string& text) {
  const ContainerLimits limits = container_limits();
  text = fmt::format("limits  {} to use", counted(usable_cores(), "core"));
  if (limits.version > 0) text += fmt::format("; control groups, version {}", limits.version);
  if (limits.cores > 0) text += fmt::format("; a CPU quota of {:.1f} cores", limits.cores);
  if (!limits.cpuset.empty()) text += "; CPUs " + printable(limits.cpuset);
  if (limits.memory_bytes > 0)
    text += fmt::format("; memory {}, of which {} is free", memory_text(limits.memory_bytes),
                        memory_text(limits.free_bytes));
  text += fmt::format("; tensors may take {}\n", memory_text(tenon::limits().memory_bytes));
  return {{"cgroup_version", limits.version},
          {"usable_cores", usable_cores()},
          {"quota_cores", limits.cores > 0 ? Json(limits.cores) : Json()},
          {"cpuset", limits.cpuset},
          {"memory_bytes", limits.memory_bytes > 0 ? Json(limits.memory_bytes) : Json()},
          {"memory_free_bytes", limits.memory_bytes > 0 ? Json(limits.free_bytes) : Json()},
          {"tensor_bytes", tenon::limits().memory_bytes}};
}

int work(const std::string& json) {
  Json facts = Json::object();
  std::string text;
  for (const backends::Backend* backend : backends::backends()) text += backend->device_query(facts);
  std::string limits;
  facts["container"] = container(limits);
  text += limits;
  facts["video"] = vision::video_available();
  facts["environment"] = environment();
  if (json != "-") {
    write_out(text);
    print_out("video {}\n", vision::video_available() ? "yes, by FFmpeg" : "no: this build has no FFmpeg");
    print_out("\nEnvironment:\n");
    for (const Json& knob : facts["environment"])
      print_out("  {:<16} {}\n                   {} ({})\n", knob["name"].get<std::string>(),
                knob["value"].is_null() ? "not set" : printable(knob["value"].get<std::string>()),
                knob["says"].get<std::string>(), knob["values"].get<std::string>());
  }
  if (!json.empty()) write_json(json, facts);
  return 0;
}

std::function<int()> add(CLI::App& app) {
  Flags flags(app);
  auto json = std::make_shared<std::string>();
  add_json(app, *json);
  flags.footer("Example:\n  tenon devices --json -");
  return [json] { return work(*json); };
}

const Registrar registrar({9, "devices",
                           "Show the processor, GPUs and libraries of this machine, and what Tenon uses of them", add});

}  // namespace
}  // namespace tenon::cli::devices_verb
