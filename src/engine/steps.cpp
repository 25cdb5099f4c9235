// SPDX-License-Identifier: Apache-2.0
#include "engine/steps.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/format.h"

namespace tenon::engine {
namespace {

using nlohmann::json;

constexpr int max_depth = 16;  // of nested blocks, as of nested subgraphs

json json_of(const Shapes& shapes) {
  json object = json::object();
  for (const auto& [name, sizes] : shapes) object[json_text(name)] = sizes;
  return object;
}

Shapes shapes_of(const json& object) {
  Shapes shapes;
  for (const auto& [name, sizes] : object.items()) {
    shapes[json_bytes(name)] = sizes.get<std::vector<int64_t>>();
    for (const int64_t size : shapes[json_bytes(name)])
      if (size < 0) throw std::logic_error("a profile has a negative size");
  }
  return shapes;
}

std::vector<std::string> texts_of(const json& list) {
  std::vector<std::string> texts;
  for (const json& text : list) texts.push_back(json_bytes(text.get<std::string>()));
  return texts;
}

json json_of(const std::vector<std::string>& texts) {
  json list = json::array();
  for (const std::string& text : texts) list.push_back(json_text(text));
  return list;
}

json json_of(const plan::Steps& steps);

/// [result, tactic, host's tactic, blocks], as far as there are any
json json_of(const plan::StepChoice& step) {
  json entry = json::array({json_text(step.result), step.tactic});
  if (!step.host.empty() || !step.blocks.empty()) entry.push_back(step.host);
  if (step.blocks.empty()) return entry;
  json blocks = json::array();
  for (const plan::Steps& block : step.blocks) blocks.push_back(json_of(block));
  entry.push_back(std::move(blocks));
  return entry;
}

json json_of(const plan::Steps& steps) {
  json list = json::array();
  for (const plan::StepChoice& step : steps.steps) list.push_back(json_of(step));
  json entry{{"maker", steps.maker},
             {"groups", json_of(steps.groups)},
             {"concurrent", steps.concurrent},
             {"placement", steps.placement},
             {"steps", std::move(list)}};
  for (const plan::Steps& part : steps.rest) entry["rest"].push_back(json_of(part));
  return entry;
}

plan::Steps steps_of(const json& entry, int depth = 0) {
  if (depth > max_depth) throw std::logic_error("its blocks are nested too deeply");
  plan::Steps steps;
  steps.maker = entry.at("maker").get<std::string>();
  steps.groups = texts_of(entry.at("groups"));
  for (const json& step : entry.at("steps")) {
    steps.steps.push_back({json_bytes(step.at(0).get<std::string>()), step.at(1).get<std::string>(),
                           step.size() > 2 ? step.at(2).get<std::string>() : std::string()});
    if (step.size() > 3)
      for (const json& block : step.at(3)) steps.steps.back().blocks.push_back(steps_of(block, depth + 1));
  }
  steps.concurrent = entry.at("concurrent").get<bool>();
  steps.placement = entry.at("placement").get<std::vector<int>>();
  if (entry.contains("rest"))
    for (const json& part : entry.at("rest")) steps.rest.push_back(steps_of(part, depth + 1));
  return steps;
}

}  // namespace

json json_of_steps(const plan::Plan& plan) {
  json profiles = json::array(), blocks = json::array(), carried = json::array();
  for (const Profile& profile : plan.profiles)
    profiles.push_back({{"name", json_text(profile.name)},
                        {"min", json_of(profile.min)},
                        {"opt", json_of(profile.opt)},
                        {"max", json_of(profile.max)}});
  for (const plan::Steps& steps : plan.steps) blocks.push_back(json_of(steps));
  for (const auto& [output, input] : plan.carried) carried.push_back({json_text(output), json_text(input)});
  return {{"profiles", std::move(profiles)}, {"blocks", std::move(blocks)}, {"carried", std::move(carried)}};
}

void read_steps(const json& content, plan::Plan& plan) {
  for (const json& entry : content.at("profiles"))
    plan.profiles.push_back({json_bytes(entry.at("name").get<std::string>()), shapes_of(entry.at("min")),
                             shapes_of(entry.at("opt")), shapes_of(entry.at("max"))});
  for (const json& entry : content.at("blocks")) plan.steps.push_back(steps_of(entry));
  const size_t wanted = std::max<size_t>(1, plan.profiles.size());
  if (!plan.steps.empty() && plan.steps.size() != wanted)
    throw std::logic_error("it has not one block for each profile");
  for (const json& entry : content.at("carried"))
    plan.carried.emplace_back(json_bytes(entry.at(0).get<std::string>()), json_bytes(entry.at(1).get<std::string>()));
  plan::check_profiles(plan);
  plan::check_carried(plan);
}

}  // namespace tenon::engine
