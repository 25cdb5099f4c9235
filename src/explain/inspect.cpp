// SPDX-License-Identifier: Apache-2.0
#include "explain/inspect.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <map>

#include "base/counted.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "engine/engine.h"
#include "plan/rest.h"

namespace tenon::explain {
namespace {

using Json = nlohmann::ordered_json;

template <class... Values>
void put(std::string& text, fmt::format_string<Values...> form, Values&&... values) {
  fmt::format_to(std::back_inserter(text), form, std::forward<Values>(values)...);
}

/// Inputs or outputs; the shape is null where the file does not state one, a size that may change -1.
Json ends_of(const ir::Graph& graph, const std::vector<ir::ValueId>& ids, const std::vector<std::string>& names = {}) {
  Json list = Json::array();
  for (size_t at = 0; at < ids.size(); ++at) {
    const ir::Value& value = graph.value(ids[at]);
    Json shape;
    if (value.shape) shape = Json::array();
    if (value.shape)
      for (const ir::Dim& dim : *value.shape) shape.push_back(dim.is_constant() ? dim.value() : -1);
    const std::string& called = at < names.size() ? names[at] : value.name;
    list.push_back({{"name", called}, {"dtype", name(value.dtype)}, {"shape", shape}});
  }
  return list;
}

/// "images 1x3x64x64 to 8x3x640x640, best 4x3x320x320"
std::string range_text(const Profile& profile) {
  std::string text;
  for (const auto& [input, best] : profile.opt)
    put(text, "{}{} {} to {}, best {}",
        !text.empty()          ? "; "
        : profile.name.empty() ? ""
                               : printable(profile.name) + ": ",
        printable(input), shape_text(profile.min.at(input)), shape_text(profile.max.at(input)), shape_text(best));
  return text;
}

/// What runs behind sizes that data decides: steps, here at usual sizes, and the nodes that say sizes.
void put_rest(std::string& text, const plan::Rest& rest) {
  for (const plan::RestPart& part : rest.parts) {
    put(text, "rest     {}, as their sizes come{}\n", counted(part.graph.nodes.size(), "node"),
        part.planned ? ": steps, here for usual ones" : "");
    if (!part.planned) continue;
    const plan::Plan& plan = part.planned->plan;
    put(text, "{}", plan::print(*part.planned->shared.bind(plan, plan.shapes, plan.threads).schedule));
  }
}

/// On a device that is not here it is not known what runs.
std::string steps_text(const Engine& engine, int threads) {
  const EngineAccess::Impl& impl = EngineAccess::of(engine);
  const plan::Plan& plan = impl.plan;
  std::string text;
  const auto put_one = [&](const std::string& title, const Shapes& shapes) {
    const plan::Bound bound = impl.shared.bind(plan, shapes, threads > 0 ? threads : plan.threads);
    put(text, "profile  {}\n", title);
    if (bound.schedule)
      put(text, "runs     on {}, {}\n{}", plan.device.str(),
          bound.schedule->concurrent ? "branches at the same time" : "one step after the other",
          plan::print(*bound.schedule));
    if (bound.parts) put_rest(text, *bound.parts);
  };
  if (plan.profiles.empty()) put_one("any sizes", plan.shapes);
  for (const Profile& profile : plan.profiles) put_one(range_text(profile), profile.opt);
  return text;
}

}  // namespace

Json summary(const ir::Graph& graph) {
  std::map<std::string, int> ops;
  for (const ir::Node& node : graph.nodes)
    if (node.alive) ++ops[node.op];
  int64_t parameters = 0, bytes = 0;
  for (const ir::Value& value : graph.values)
    if (value.is_constant() && value.dtype != DType::string && value.dtype != DType::sequence) {
      parameters += value.constant.elements();
      bytes += static_cast<int64_t>(value.constant.bytes());
    }
  return {{"inputs", ends_of(graph, graph.inputs)},
          {"outputs", ends_of(graph, graph.outputs, graph.output_names)},
          {"ops", ops},
          {"parameters", parameters},
          {"weights_bytes", bytes},
          {"metadata", graph.metadata}};
}

std::string summary_text(const Json& json) {
  std::string text;
  for (const char* end : {"inputs", "outputs"})
    for (const Json& info : json[end])
      put(text, "{:<8} {}  {} {}\n", std::string(end).substr(0, std::strlen(end) - 1),
          printable(info["name"].get<std::string>()),
          info["dtype"] == "undefined" ? "of unstated type" : info["dtype"].get<std::string>(),
          info["shape"].is_null() ? "of unstated shape" : shape_text(info["shape"].get<std::vector<int64_t>>()));
  put(text, "{:<8} {}, {}\n", "weights", counted(json["parameters"].get<int64_t>(), "element"),
      bytes_text(json["weights_bytes"]));
  for (const auto& [op, count] : json["ops"].items())
    put(text, "{:<8} {:5} x {}\n", "op", count.get<int>(), printable(op));
  for (const auto& [key, value] : json["metadata"].items())
    put(text, "{:<8} {} = {}\n", "meta", printable(key), printable(value.get<std::string>()));
  return text;
}

Json inspection(const Engine& engine, int threads) {
  const plan::Plan& plan = plan_of(engine);
  Json json = summary(plan.graph);
  json["threads"] = plan.threads;
  json["isa"] = plan.goal.isa;
  json["precision"] = name(plan.goal.precision);
  json["device"] = plan.device.str();
  json["strict"] = plan.goal.strict;
  json["shapes"] = plan.shapes;
  json["profiles"] = Json::array();
  for (const Profile& profile : plan.profiles)
    json["profiles"].push_back(
        {{"name", profile.name}, {"min", profile.min}, {"opt", profile.opt}, {"max", profile.max}});
  json["state"] = Json::array();
  for (const auto& [output, input] : plan.carried) json["state"].push_back({{"output", output}, {"input", input}});
  const MemoryUse memory = engine.session(threads).memory();
  json["memory"] = {{"arena_bytes", memory.arena_bytes},
                    {"arena_lower_bound", memory.arena_lower_bound},
                    {"weights_bytes", memory.weights_bytes}};
  if (memory.device_bytes > 0) json["memory"].update(device_memory(memory));
  json["tactics"] = Json::array();
  for (const auto& [problem, record] : plan.records)
    json["tactics"].push_back({{"problem", problem}, {"kernel", record.kernel}, {"us", record.microseconds}});
  return json;
}

std::string inspection_text(const Engine& engine, const Json& json, Steps steps, int threads) {
  const plan::Plan& plan = plan_of(engine);
  const bool all = steps == Steps::printed;
  const Json& memory = json["memory"];
  const bool on_gpu = memory.contains("device_bytes");
  std::string text = all ? ir::print(plan.graph) : "";
  text += summary_text(json);
  put(text, "{:<8} {}, kernels for {}, {}{}\n", "built", counted(plan.threads, "thread"), plan.goal.isa,
      name(plan.goal.precision), on_gpu ? " on " + plan.device.str() : "");
  for (const auto& [input, sizes] : plan.shapes)
    if (plan.profiles.empty()) put(text, "{:<8} {} {}\n", "tuned", printable(input), shape_text(sizes));
  for (const Profile& profile : plan.profiles)
    if (!all) put(text, "{:<8} {}\n", "profile", range_text(profile));
  for (const auto& [output, input] : plan.carried)
    put(text, "{:<8} {} to {}\n", "state", printable(output), printable(input));
  put(text, "{:<8} arena {}, weights {}{}\n", "memory", bytes_text(memory["arena_bytes"]),
      bytes_text(memory["weights_bytes"]), on_gpu ? ", " + device_memory_text(memory) : "");
  if (all) text += steps_text(engine, threads);
  return text;
}

Json device_memory(const MemoryUse& memory) {
  return {{"input_bytes", memory.input_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"device_bytes", memory.device_bytes}};
}

std::string device_memory_text(const Json& memory) {
  return fmt::format("inputs {}, workspace {}: {} on the GPU", bytes_text(memory["input_bytes"]),
                     bytes_text(memory["workspace_bytes"]), bytes_text(memory["device_bytes"]));
}

}  // namespace tenon::explain
